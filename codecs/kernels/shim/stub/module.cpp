// Modules, and kernels that run on the shim.
#include <cstring>
#include <set>

#include "../../buddy/allocation.cuh"
#include "../../frame/batch.cuh"
#include "../../ibp/table.cuh"
#include "../../reduce/task.cuh"
#include "../buddy_shape.h"
#include "stub.h"

using namespace stub;

struct Kernel {
  const char* source;  // its file, in the folder of the kernels
  const char* name;
  void (*run)(const MgcBatch&);         // on frames, or null
  void (*gather)(const MgcRows&);       // of rows, or null
  void (*move)(const MgcBuddy&);        // of entries in buddy memory, or null
  void (*reduce)(const MgcReduction&);  // of numbers, or null
};

#define MGC_CODEC(name, ...)                      \
  extern "C" void name##_encode(const MgcBatch&); \
  extern "C" void name##_decode(const MgcBatch&); \
  extern "C" void name##_estimate(const MgcBatch&);
#include "../../codecs.h"
#undef MGC_CODEC

extern "C" void ibp_rows(const MgcRows&);
extern "C" void bpc_buddy_read(const MgcBuddy&);
extern "C" void bpc_buddy_write(const MgcBuddy&);
extern "C" void xp_buddy_read(const MgcBuddy&);
extern "C" void xp_buddy_write(const MgcBuddy&);
extern "C" void reduce_numbers(const MgcReduction&);

static const Kernel KERNELS[] = {
  {"ibp/ibp.cu", "ibp_rows", nullptr, ibp_rows, nullptr, nullptr},
  {"buddy/bpc.cu", "bpc_buddy_read", nullptr, nullptr, bpc_buddy_read, nullptr},
  {"buddy/bpc.cu", "bpc_buddy_write", nullptr, nullptr, bpc_buddy_write, nullptr},
  {"buddy/xp.cu", "xp_buddy_read", nullptr, nullptr, xp_buddy_read, nullptr},
  {"buddy/xp.cu", "xp_buddy_write", nullptr, nullptr, xp_buddy_write, nullptr},
  {"reduce/reduce.cu", "reduce_numbers", nullptr, nullptr, nullptr, reduce_numbers},
#define MGC_CODEC(name, ...)                                   \
  {#name "/" #name ".cu", #name "_encode", name##_encode, nullptr, nullptr, nullptr},   \
  {#name "/" #name ".cu", #name "_decode", name##_decode, nullptr, nullptr, nullptr},   \
  {#name "/" #name ".cu", #name "_estimate", name##_estimate, nullptr, nullptr, nullptr},
#include "../../codecs.h"
#undef MGC_CODEC
};

// Dynamic shared memory that a kernel may have without asking for more.
static constexpr size_t DEFAULT_SHARED_LEN = 48 << 10;
// What a kernel is said to take of its own.
static constexpr int STATIC_SHARED_LEN = 1 << 10;

struct Function {
  const Kernel* kernel;
  Context* context;
  size_t shared_limit;
};

struct Module {
  Context* context;
  std::string image;
  std::vector<std::unique_ptr<Function>> functions;
};

static std::set<Function*> functions;

// The number behind `word`, without a point: 90 for "sm_90", 90 for "9.0".
static unsigned number_after(const std::string& text, const char* word) {
  size_t at = text.find(word);
  if (at == std::string::npos) return 0;
  unsigned number = 0;
  for (at += strlen(word); at < text.size() && (text[at] == '.' || isdigit(text[at])); at++) {
    if (text[at] != '.') number = 10 * number + (unsigned)(text[at] - '0');
  }
  return number;
}

// Whether the device takes an image: what the stub of the compiler makes, PTX, or real machine code.
static Result check_image(const char* image) {
  const Settings& s = driver().settings;
  if (memcmp(image, "\x7f" "ELF", 4) == 0) return SUCCESS;
  const std::string text(image);
  if (text.rfind("STUB CUBIN", 0) == 0) return number_after(text, "sm_") == s.capability ? SUCCESS : NO_BINARY;
  const unsigned version = number_after(text, ".version "), target = number_after(text, ".target sm_");
  if (version == 0 || target == 0) return INVALID_IMAGE;
  // PTX 9.0 came with CUDA 13.0, and 8.0 with 12.0.
  if (version > (s.driver_version / 1000 - 4) * 10 + s.driver_version % 1000 / 10) return UNSUPPORTED_PTX;
  return target <= s.capability ? SUCCESS : NO_BINARY;
}

// Whether an image has a kernel.
static bool has_kernel(const std::string& image, const Kernel& kernel) {
  if (image.empty()) return true;  // machine code: not looked into
  if (image.rfind("STUB CUBIN", 0) != 0) return image.find(std::string(".entry ") + kernel.name) != std::string::npos;
  return image.find(std::string("\n") + kernel.source + "\n") != std::string::npos;
}

STUB_API int cuModuleLoadData(void** handle, const char* image) {
  STUB_ENTER_CONTEXT;
  if (const Result error = refuse_recording()) return error;
  if (const Result error = check_image(image)) return error;
  take_time_to_allocate(current_context());
  Module* const module = new Module;
  module->context = current_context();
  if (image[0] != '\x7f') module->image = image;
  *handle = module;
  driver().live[MODULES]++;
  return SUCCESS;
}

STUB_API int cuModuleUnload(Module* module) {
  STUB_RELEASE;
  refuse_recording();
  // Kernels run in their context alone, and other devices may wait for what this one does next.
  const std::vector<std::shared_ptr<Stream>> streams = driver().streams;
  for (const std::shared_ptr<Stream>& stream : streams) {
    if (stream->context == module->context) drain(stream);
  }
  for (const auto& function : module->functions) functions.erase(function.get());
  delete module;
  driver().live[MODULES]--;
  return result;
}

STUB_API int cuModuleGetFunction(void** handle, Module* module, const char* name) {
  STUB_ENTER_CONTEXT;
  for (const Kernel& kernel : KERNELS) {
    if (strcmp(kernel.name, name) != 0 || !has_kernel(module->image, kernel)) continue;
    module->functions.emplace_back(new Function{&kernel, module->context, DEFAULT_SHARED_LEN});
    functions.insert(module->functions.back().get());
    *handle = module->functions.back().get();
    return SUCCESS;
  }
  return NOT_FOUND;
}

STUB_API int cuFuncGetAttribute(int* value, int attribute, Function* function) {
  STUB_ENTER_CONTEXT;
  if (functions.count(function) == 0) return INVALID_HANDLE;
  *value = STATIC_SHARED_LEN;
  return attribute == 1 ? SUCCESS : INVALID_VALUE;
}

STUB_API int cuFuncSetAttribute(Function* function, int attribute, int value) {
  STUB_ENTER_CONTEXT;
  if (functions.count(function) == 0) return INVALID_HANDLE;
  const int64_t most = (int64_t)driver().settings.shared_len - STATIC_SHARED_LEN;
  if (attribute != 8 || value < 0 || value > most) return INVALID_VALUE;
  function->shared_limit = (size_t)value;
  return SUCCESS;
}

STUB_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function, int, size_t shared_len) {
  STUB_ENTER_CONTEXT;
  if (functions.count(function) == 0) return INVALID_HANDLE;
  *blocks = (int)(driver().settings.shared_len / (shared_len + STATIC_SHARED_LEN));
  return SUCCESS;
}

// What a kernel with a bug would do.
static void plant(const MgcBatch& batch) {
  const Settings& s = driver().settings;
  for (unsigned i = 0; i < batch.jobs; i++) {
    const MgcJob& job = batch.job[i];
    if (job.dst == nullptr) continue;
    if (s.wrong_byte != 0 && job.dst_len != 0) job.dst[0] ^= 1;
    if (s.stray_byte != 0) job.dst[job.dst_len] ^= 1;
  }
}

// Counts a launch; false if it is the one that ends in an illegal address.
static bool begin_launch(unsigned grid, shim::Options& options) {
  Driver& d = driver();
  std::lock_guard<std::recursive_mutex> lock(d.mutex);
  d.grid = grid;
  options.seed = ++d.launches;
  options.order = (shim::Order)d.settings.lane_order;
  if (d.launches != d.settings.faulty_launch) return true;
  fault();
  return false;
}

// Loses all if a launch is about to use memory that is not for kernels in this context.
static bool check_memory(Context* context, const std::vector<Range>& memory) {
  std::lock_guard<std::recursive_mutex> lock(driver().mutex);
  for (const Range& range : memory) {
    if (!reaches(context, range)) return fault(), false;
  }
  return true;
}

// What a kernel with a bug would do.
static void plant(const MgcRows& rows) {
  const Settings& s = driver().settings;
  const u64 len = rows.count * rows.row_len;
  if (s.wrong_byte != 0 && len != 0) rows.out[0] ^= 1;
  if (s.stray_byte != 0) rows.out[len] ^= 1;
}

static void plant(const MgcBuddy& buddy) {
  const Settings& s = driver().settings;
  if (s.wrong_byte != 0) buddy.data[0] ^= 1;
  if (s.stray_byte != 0) buddy.data[buddy.end - buddy.start] ^= 1;
}

// What a kernel with a bug would do.
static void plant(const MgcReduction& task) {
  const Settings& s = driver().settings;
  if (s.wrong_byte != 0) task.result[0] ^= 1;
  if (s.stray_byte != 0) task.result[task.len] ^= 1;
}

// Runs a kernel by what `call` does with its parameters.
template <class Parameters, class Call>
static void run(unsigned grid, size_t shared_len, const Parameters& parameters, Call call) {
  shim::Options options;
  if (!begin_launch(grid, options)) return;
  options.dynamic_shared_len = shared_len;
  shim::launch(dim3(grid), dim3(MGC_BLOCK_THREADS), [&] { call(parameters); }, options);
  plant(parameters);
}

// The memory that a launch uses.
static std::vector<Range> memory_of(const MgcBatch& batch) {
  std::vector<Range> memory = {{(uint64_t)batch.workspace, 8 * MGC_WORKSPACE_WORDS}};
  const auto add = [&](const volatile void* at, size_t len) {
    if (at != nullptr) memory.push_back({(uint64_t)at, len});
  };
  for (unsigned i = 0; i < batch.jobs; i++) {
    const MgcJob& job = batch.job[i];
    add(job.src, job.src_len);
    add(job.dst, job.dst_len);
    add(job.src_len_at, job.codebook_units != 0 ? MGC_UNIT * job.codebook_units : 8);
    add(job.out_len, 8);
    add(job.status, 8);
  }
  return memory;
}

static std::vector<Range> memory_of(const MgcRows& rows) {
  std::vector<Range> memory;
  const auto add = [&](const void* at, size_t len) {
    if (at != nullptr) memory.push_back({(uint64_t)at, len});
  };
  const size_t words = row_shape(rows.row_len, rows.granule).words;
  add(rows.slots, rows.rows * rows.row_len);
  add(rows.packed, (rows.rows + 7) / 8);
  add(rows.clusters, rows.rows);
  add(rows.masks, 8 * words * rows.cluster_count);
  add(rows.least_lens, 4 * rows.cluster_count);
  add(rows.map, rows.map == nullptr ? 0 : 16ull << rows.map_log2);
  add(rows.totals, 16);
  for (unsigned i = 0; i < MGC_MAX_SLABS; i++) add(rows.slabs[i], rows.slab_lens[i]);
  add(rows.indices, 8 * rows.count);
  add(rows.out, rows.count * rows.row_len);
  add(rows.report, 8 * MGC_ROWS_REPORT_WORDS);
  add(rows.workspace, 8 * MGC_WORKSPACE_WORDS);
  return memory;
}

static std::vector<Range> memory_of(const MgcBuddy& buddy) {
  const BuddyShape shape = buddy_shape(buddy.len, buddy.slot_len, buddy.spill_len);
  std::vector<Range> memory = {
    {(uint64_t)buddy.slots, shape.slots_len},
    {(uint64_t)buddy.states, shape.states_len},
    {(uint64_t)buddy.data, buddy.end - buddy.start},
    {(uint64_t)buddy.report, 8 * (1 + MGC_BUDDY_COUNTS)},
    {(uint64_t)buddy.workspace, 8 * MGC_WORKSPACE_WORDS},
  };
  if (buddy.spill_len != 0) memory.push_back({(uint64_t)buddy.spills, shape.spills_len});
  if (buddy.totals != nullptr) memory.push_back({(uint64_t)buddy.totals, 8 * MGC_BUDDY_COUNTS});
  return memory;
}

static std::vector<Range> memory_of(const MgcReduction& task) {
  std::vector<Range> memory = {{(uint64_t)task.result, task.len}};
  for (u32 rank = 0; rank < task.ranks; rank++) {
    const u8* const from = rank == task.own_rank ? task.own : task.numbers + rank * task.stride;
    memory.push_back({(uint64_t)from, task.len});
  }
  return memory;
}

// Parameters are copied now; what they point to is looked at when the work runs.
template <class Parameters, class Call>
static int launch(void* stream, Context* context, unsigned grid, size_t shared_len, void** parameters, Call call) {
  const auto copy = std::make_shared<Parameters>(*(const Parameters*)parameters[0]);
  const std::vector<Range> memory = memory_of(*copy);
  const auto work = [=] {
    if (check_memory(context, memory)) run(grid, shared_len, *copy, call);
  };
  return enqueue(stream, work, memory, {}, Cost{0, 1});
}

// Whether a launch gives a kernel the shared memory that it needs, where that is known; a reduction needs none.
static bool has_shared(const Kernel& kernel, size_t shared_len, void** parameters) {
  if (kernel.move == bpc_buddy_read || kernel.move == bpc_buddy_write) return shared_len == bpc_buddy_shared_len();
  if (kernel.move != nullptr) {
    return shared_len == xp_buddy_shared_len(*(const MgcBuddy*)parameters[0], kernel.move == xp_buddy_write);
  }
  if (kernel.reduce != nullptr) return shared_len == 0;
  if (kernel.gather == nullptr) return true;
  const MgcRows& rows = *(const MgcRows*)parameters[0];
  return shared_len == rows_shared_len(rows.row_len, rows.granule);
}

STUB_API int cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared_len, void* stream, void** parameters,
                            void** extra) {
  STUB_ENTER_CONTEXT;
  if (functions.count(function) == 0) return INVALID_HANDLE;
  const bool shape = grid_x != 0 && grid_y == 1 && grid_z == 1 && block_x == MGC_BLOCK_THREADS && block_y == 1 &&
                     block_z == 1 && extra == nullptr;
  const Kernel& kernel = *function->kernel;
  if (!shape || shared_len > function->shared_limit || !has_shared(kernel, shared_len, parameters)) return INVALID_VALUE;
  const std::shared_ptr<Stream> on = find_stream(stream);
  Context* const context = function->context;
  if (on == nullptr || on->context != context) return INVALID_HANDLE;
  if (kernel.gather != nullptr) return launch<MgcRows>(stream, context, grid_x, shared_len, parameters, kernel.gather);
  if (kernel.move != nullptr) return launch<MgcBuddy>(stream, context, grid_x, shared_len, parameters, kernel.move);
  if (kernel.reduce != nullptr) return launch<MgcReduction>(stream, context, grid_x, 0, parameters, kernel.reduce);
  return launch<MgcBatch>(stream, context, grid_x, shared_len, parameters, kernel.run);
}
