// A run-time compiler that compiles nothing: its machine code names the source, and the stub of the driver runs
// the kernels of that name. It looks at what it is given as a compiler would: flags, headers, target.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#define STUB_API extern "C" __attribute__((visibility("default")))

// Numbers of `nvrtcResult`.
enum { SUCCESS = 0, INVALID_OPTION = 5, COMPILATION = 6 };

// The newest device that it knows.
static constexpr int NEWEST = 121;

static unsigned calls, fail_at;
static int fail_with;
static uint64_t live;

// Makes the `at`th call from now fail with `code`. 0: none.
STUB_API void mgc_stub_fail_compiler(unsigned at, int code) {
  calls = 0;
  fail_at = at;
  fail_with = code;
}

// How many programs there are.
STUB_API uint64_t mgc_stub_programs() { return live; }

static int enter() { return ++calls == fail_at ? fail_with : SUCCESS; }
#define STUB_ENTER \
  if (const int error = enter()) return error

struct Program {
  std::string file, text;
  std::map<std::string, std::string> headers;
  std::string image, log;
};

// The name of an included file that is not there, or nothing.
static std::string missing_header(const Program& program, const std::string& text) {
  const char INCLUDE[] = "#include \"";
  for (size_t at = 0; (at = text.find(INCLUDE, at)) != std::string::npos;) {
    at += strlen(INCLUDE);
    const std::string name = text.substr(at, text.find('"', at) - at);
    // The shim is for the CPU alone.
    if (name.rfind("shim/", 0) != 0 && program.headers.count(name) == 0) return name;
  }
  return "";
}

STUB_API int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return SUCCESS;
}

STUB_API int nvrtcCreateProgram(Program** program, const char* text, const char* file, int headers,
                                const char* const* header_texts, const char* const* header_names) {
  STUB_ENTER;
  *program = new Program{file, text, {}, "", ""};
  live++;
  for (int i = 0; i < headers; i++) (*program)->headers[header_names[i]] = header_texts[i];
  return SUCCESS;
}

STUB_API int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  live--;
  return enter();
}

STUB_API int nvrtcCompileProgram(Program* program, int count, const char* const* flags) {
  STUB_ENTER;
  const char TARGET[] = "--gpu-architecture=sm_";
  std::string target;
  for (int i = 0; i < count; i++) {
    if (strncmp(flags[i], TARGET, strlen(TARGET)) == 0) target = flags[i] + strlen(TARGET);
  }
  if (target.empty() || atoi(target.c_str()) > NEWEST) {
    program->log = "nvrtc: error: invalid value for --gpu-architecture";
    return INVALID_OPTION;
  }
  std::string missing = missing_header(*program, program->text);
  for (const auto& header : program->headers) {
    if (missing.empty()) missing = missing_header(*program, header.second);
  }
  if (!missing.empty()) {
    program->log = program->file + "(1): error: cannot open source file \"" + missing + "\"";
    return COMPILATION;
  }
  program->image = "STUB CUBIN sm_" + target + "\n" + program->file + "\n";
  return SUCCESS;
}

static int size_of(const std::string& text, size_t* len) {
  STUB_ENTER;
  *len = text.size() + 1;
  return SUCCESS;
}

static int copy(const std::string& text, char* to) {
  STUB_ENTER;
  memcpy(to, text.c_str(), text.size() + 1);
  return SUCCESS;
}

STUB_API int nvrtcGetProgramLogSize(Program* program, size_t* len) { return size_of(program->log, len); }
STUB_API int nvrtcGetProgramLog(Program* program, char* log) { return copy(program->log, log); }
STUB_API int nvrtcGetCUBINSize(Program* program, size_t* len) { return size_of(program->image, len); }
STUB_API int nvrtcGetCUBIN(Program* program, char* image) { return copy(program->image, image); }
STUB_API int nvrtcGetPTXSize(Program* program, size_t* len) { return size_of(program->image, len); }
STUB_API int nvrtcGetPTX(Program* program, char* image) { return copy(program->image, image); }
