// Ranks in other processes. The process that has made an id is the hub: all operations meet there. Each rank elsewhere has
// two connections with it: one brings its operations with what they send, and takes home what they receive; the other
// tells it what becomes of the communicator, and tells the hub that the rank has left.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "../stub/stub.h"
#include "nccl.h"

namespace stub_nccl {

// What a connection starts with.
struct Hello {
  UniqueId id;
  Seat seat;
  int is_news;
};

// An operation on its way, before the bytes that it sends.
struct Parcel {
  Kind kind;
  int type, reduction, peer;
  uint64_t count, sent, received;
};

struct News {
  int met, failure;
};

// What a rank says on the connection for news before it closes it in peace.
constexpr char LEFT = 'L';

static bool put(int socket, const void* bytes, size_t len) {
  for (const char* at = (const char*)bytes; len != 0;) {
    const ssize_t put = send(socket, at, len, MSG_NOSIGNAL);
    if (put <= 0) return false;
    at += put;
    len -= (size_t)put;
  }
  return true;
}

static bool get(int socket, void* bytes, size_t len) {
  for (char* at = (char*)bytes; len != 0;) {
    const ssize_t got = recv(socket, at, len, 0);
    if (got <= 0) return false;
    at += got;
    len -= (size_t)got;
  }
  return true;
}

// A socket, and the address that belongs to an id: a name that is no file.
static int socket_of(const UniqueId& id, sockaddr_un* address, socklen_t* len) {
  *address = {};
  address->sun_family = AF_UNIX;
  const int printed = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "mgcomp-%s", id.bytes);
  *len = (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)printed);
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static size_t sent_by(const Operation& o, int rank, int ranks) {
  const size_t len = o.count * width_of(o.type);
  switch (o.kind) {
    case Kind::RECV: return 0;
    case Kind::BROADCAST: return rank == o.peer ? len : 0;
    case Kind::REDUCE_SCATTER: return len * (size_t)ranks;
    default: return len;
  }
}

static size_t received_by(const Operation& o, int ranks) {
  const size_t len = o.count * width_of(o.type);
  switch (o.kind) {
    case Kind::SEND: return 0;
    case Kind::ALL_GATHER: return len * (size_t)ranks;
    default: return len;
  }
}

// In the hub: does what a rank elsewhere brings, until it is gone.
static void work_for(const std::shared_ptr<Comm>& comm, int socket) {
  uint64_t count;
  while (get(socket, &count, sizeof count)) {
    std::vector<Operation> operations;
    std::vector<std::vector<char>> sent(count), received(count);
    for (size_t i = 0; i < count; i++) {
      Parcel p;
      if (!get(socket, &p, sizeof p)) return;
      sent[i].resize(p.sent);
      received[i].resize(p.received);
      if (!get(socket, sent[i].data(), p.sent)) return;
      operations.push_back({p.kind, sent[i].data(), received[i].data(), p.count, p.type, p.reduction, p.peer, nullptr});
    }
    run(*comm, operations);
    std::unique_lock<std::mutex> lock(state().mutex);
    const char good = !comm->aborted && comm->failure == SUCCESS;
    lock.unlock();
    if (!put(socket, &good, 1)) return;
    for (const std::vector<char>& bytes : received) {
      if (good && !put(socket, bytes.data(), bytes.size())) return;
    }
  }
}

// In the hub: tells a rank elsewhere what becomes of its communicator, until it is gone.
static void tell(const std::shared_ptr<Comm>& comm, int socket) {
  News told = {0, 0};
  std::unique_lock<std::mutex> lock(state().mutex);
  for (;;) {
    const News news = {comm->world->joined == comm->world->ranks, comm->failure};
    if (comm->aborted || comm->gone) return;
    if (news.met == told.met && news.failure == told.failure) {
      state().changed.wait(lock);
      continue;
    }
    told = news;
    if (!put(socket, &news, sizeof news)) return;
  }
}

// In the hub: waits until a rank elsewhere leaves, in peace or not.
static void watch(const std::shared_ptr<Comm>& comm, int socket) {
  char last = 0, byte;
  while (get(socket, &byte, 1)) last = byte;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (last == LEFT) {
    comm->gone = true;
    state().changed.notify_all();
  } else {
    leave_in_strife(*comm);
  }
  comm->world->members[(size_t)comm->rank] = nullptr;
}

// In the hub: the two connections of a rank come in this order.
static void serve(int socket) {
  static std::map<std::string, std::shared_ptr<Comm>> joined;  // those whose second connection is still to come
  Hello hello;
  if (!get(socket, &hello, sizeof hello)) return (void)close(socket);
  const std::string key = std::string(hello.id.bytes) + " " + std::to_string(hello.seat.rank);
  std::shared_ptr<Comm> comm;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (!hello.is_news) {
      comm = join(hello.id, hello.seat);
      if (comm != nullptr) comm->work = socket;
      joined[key] = comm;
    } else {
      comm = joined[key];
      if (comm != nullptr) comm->news = socket;
      joined.erase(key);
    }
  }
  if (comm != nullptr && hello.is_news) {
    std::thread(tell, comm, socket).detach();
    watch(comm, socket);
  } else if (comm != nullptr) {
    const char welcome = 1;
    put(socket, &welcome, 1);
    work_for(comm, socket);
  } else {
    close(socket);
  }
}

bool listen_for(const UniqueId& id) {
  sockaddr_un address;
  socklen_t len;
  const int listener = socket_of(id, &address, &len);
  if (listener < 0 || bind(listener, (sockaddr*)&address, len) != 0 || listen(listener, 64) != 0) return false;
  std::thread([listener] {
    for (int socket; (socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) std::thread(serve, socket).detach();
  }).detach();
  return true;
}

static int connect_to(const UniqueId& id, const Seat& seat, int is_news) {
  sockaddr_un address;
  socklen_t len;
  const int hub = socket_of(id, &address, &len);
  const Hello hello = {id, seat, is_news};
  if (hub >= 0 && connect(hub, (sockaddr*)&address, len) == 0 && put(hub, &hello, sizeof hello)) return hub;
  if (hub >= 0) close(hub);
  return -1;
}

std::shared_ptr<Comm> join_elsewhere(const UniqueId& id, const Seat& seat) {
  const auto comm = std::make_shared<Comm>();
  comm->world = std::make_shared<World>();
  comm->world->ranks = seat.ranks;
  comm->world->members.resize((size_t)seat.ranks);
  comm->rank = seat.rank;
  comm->world->members[(size_t)seat.rank] = comm.get();
  char welcome;
  comm->work = connect_to(id, seat, 0);
  // Both mutexes are held: a hub that is stopped must not hold this process up for ever.
  const timeval patience = {20, 0}, endless = {0, 0};
  setsockopt(comm->work, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  // The hub knows of it before the second connection comes.
  if (comm->work < 0 || !get(comm->work, &welcome, 1)) return nullptr;
  setsockopt(comm->work, SOL_SOCKET, SO_RCVTIMEO, &endless, sizeof endless);
  comm->news = connect_to(id, seat, 1);
  return comm->news < 0 ? nullptr : comm;
}

void hear(Comm& comm) {
  if (comm.news < 0) return;
  News news;
  ssize_t got;
  while ((got = recv(comm.news, &news, sizeof news, MSG_DONTWAIT)) == (ssize_t)sizeof news) {
    if (news.met) comm.world->joined = comm.world->ranks;
    if (comm.failure == SUCCESS) comm.failure = (Result)news.failure;
  }
  // The hub is gone, which is nothing to who is about to leave.
  if (got == 0 && comm.failure == SUCCESS && !comm.finalized) comm.failure = REMOTE_ERROR;
}

void run_elsewhere(Comm& comm, const std::vector<Operation>& operations) {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (comm.aborted || comm.failure != SUCCESS) return;
    if (comm.running != 0) stub::die("NCCL: a rank elsewhere has work on two streams at a time");
    comm.running++;
    state().begun += operations.size();
  }
  const int ranks = comm.world->ranks;
  const uint64_t count = operations.size();
  bool good = put(comm.work, &count, sizeof count);
  for (const Operation& o : operations) {
    const size_t sent = sent_by(o, comm.rank, ranks), received = received_by(o, ranks);
    const Parcel parcel = {o.kind, o.type, o.reduction, o.peer, o.count, sent, received};
    good = good && put(comm.work, &parcel, sizeof parcel) && put(comm.work, o.send, sent);
  }
  char done = 0;
  good = good && get(comm.work, &done, 1);
  for (const Operation& o : operations) {
    good = good && done && get(comm.work, o.recv, received_by(o, ranks));
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!good && comm.failure == SUCCESS) comm.failure = REMOTE_ERROR;
  comm.running--;
  state().changed.notify_all();
}

void leave_hub(Comm& comm, bool in_peace) {
  if (comm.news < 0) return;
  if (in_peace) put(comm.news, &LEFT, 1);
  // Who is at it in another thread comes back; the sockets are closed when nobody has them any more.
  shutdown(comm.news, SHUT_RDWR);
  shutdown(comm.work, SHUT_RDWR);
}

Comm::~Comm() {
  if (work >= 0) close(work);
  if (news >= 0) close(news);
}

}  // namespace stub_nccl
