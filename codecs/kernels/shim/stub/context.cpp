// Contexts: the primary one of each device, and others; and whose memory they may use.
#include <algorithm>

#include "stub.h"

using namespace stub;

// What this thread has pushed. A context can be there more than once.
static thread_local std::vector<Context*> pushed;

// All that there ever were, but for primary ones.
static std::vector<Context*> made;

static Context* primary_of(int device) {
  static std::map<int, Context*> primaries;
  Context*& primary = primaries[device];
  if (primary == nullptr) primary = new Context{device, true, 0, {}, {}};
  return primary;
}

bool stub::is_alive(const Context* context) {
  const bool known = std::find(made.begin(), made.end(), context) != made.end();
  for (int device = 0; !known && is_device(device); device++) {
    if (primary_of(device) == context) return context->holds != 0;
  }
  return known && context->holds != 0;
}

Context* stub::current_context() { return pushed.back(); }

Result stub::enter_context(const char* call) {
  const Result error = enter(call);
  if (error != SUCCESS) return error;
  if (pushed.empty()) return INVALID_CONTEXT;
  return is_alive(pushed.back()) ? loss_of(pushed.back()) : CONTEXT_DESTROYED;
}

STUB_API int cuDevicePrimaryCtxRetain(Context** context, int device) {
  STUB_ENTER;
  if (!is_device(device)) return INVALID_DEVICE;
  *context = primary_of(device);
  (*context)->holds++;
  driver().live[HOLDS]++;
  return SUCCESS;
}

// Nobody may use the memory of a context that is gone, and it that of nobody.
static void end(Context* context) {
  drain_all();
  context->peers.clear();
  for (Context* other : made) other->peers.erase(context);
  for (int device = 0; is_device(device); device++) primary_of(device)->peers.erase(context);
}

// The last release destroys the context and what is left in it. Hosts should leave nothing.
STUB_API int cuDevicePrimaryCtxRelease_v2(int device) {
  STUB_RELEASE;
  Context* const context = primary_of(device);
  if (context->holds == 0) die("a context is released that nobody holds");
  driver().live[HOLDS]--;
  if (--context->holds == 0) end(context);
  return result;
}

static void push(Context* context) {
  pushed.push_back(context);
  driver().live[CURRENT]++;
}

// The context is the calling thread's from now on.
STUB_API int cuCtxCreate_v2(Context** context, unsigned, int device) {
  STUB_ENTER;
  if (!is_device(device)) return INVALID_DEVICE;
  *context = new Context{device, false, 1, {}, {}};
  made.push_back(*context);
  driver().live[CONTEXTS]++;
  push(*context);
  return SUCCESS;
}

STUB_API int cuCtxDestroy_v2(Context* context) {
  STUB_RELEASE;
  if (!is_alive(context) || context->primary) die("a context is destroyed that there is not");
  context->holds = 0;
  driver().live[CONTEXTS]--;
  end(context);
  return result;
}

STUB_API int cuCtxPushCurrent_v2(Context* context) {
  STUB_ENTER;
  if (!is_alive(context)) return INVALID_CONTEXT;
  push(context);
  return SUCCESS;
}

STUB_API int cuCtxPopCurrent_v2(Context** context) {
  STUB_RELEASE;
  if (pushed.empty()) die("a context is popped that nobody has pushed");
  *context = pushed.back();
  pushed.pop_back();
  driver().live[CURRENT]--;
  return result;
}

// Whatever its mode, a recording in the context is spoiled.
STUB_API int cuCtxSynchronize() {
  STUB_ENTER_CONTEXT;
  Result refused = SUCCESS;
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (stream->recording == nullptr || stream->context != current_context()) continue;
    stream->recording->valid = false;
    refused = CAPTURE_UNSUPPORTED;
  }
  if (refused != SUCCESS) return refused;
  drain_users(current_context(), {0, 0}, false);
  return loss_of(current_context());
}

STUB_API int cuCtxEnablePeerAccess(Context* peer, unsigned flags) {
  STUB_ENTER_CONTEXT;
  Context* const context = current_context();
  if (!is_alive(peer) || peer == context) return INVALID_CONTEXT;
  if (flags != 0) return INVALID_VALUE;
  if (!can_reach(context->device, peer->device)) return PEER_UNSUPPORTED;
  return context->peers.insert(peer).second ? SUCCESS : PEER_ALREADY_ENABLED;
}

STUB_API int cuCtxDisablePeerAccess(Context* peer) {
  STUB_ENTER_CONTEXT;
  if (!is_alive(peer)) return INVALID_CONTEXT;
  return current_context()->peers.erase(peer) != 0 ? SUCCESS : PEER_NOT_ENABLED;
}
