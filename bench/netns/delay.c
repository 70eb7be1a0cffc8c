/* A switch that takes its time: joins the given interfaces and passes every frame on after a delay, but those that it
 * loses, for kernels without netem.
 *
 *   delay MICROSECONDS LOST_PER_MILLION INTERFACE...
 *
 * All frames wait equally long, so that one queue holds them in the order in which they leave. Frames may be longer
 * than the MTU where the kernel has put segments together; the header in front of each (PACKET_VNET_HDR) tells the
 * kernel on the other side how to take them apart.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  MAX_PORTS = 8,
  HEADER = sizeof(struct virtio_net_hdr),
  FRAME_BYTES = 128 << 10,
  /* What may wait: more than the fastest link brings in the longest delay. */
  QUEUED_BYTES = 256 << 20,
  SOCKET_BYTES = 64 << 20,
};

struct frame {
  struct frame *next;
  int64_t due_ns;
  int from;
  size_t len;
  unsigned char bytes[];
};

struct port {
  int socket;
  const char *name;
};

/* Which address was last seen at which port. */
struct seen {
  unsigned char address[ETH_ALEN];
  int port;
};

static struct port ports[MAX_PORTS];
static int port_count;
static struct seen seen[4 * MAX_PORTS];
static int seen_count;
static struct frame *first, *last;
static size_t queued_bytes;

static void fail(const char *what, const char *name) {
  fprintf(stderr, "delay: %s %s: %s\n", what, name, strerror(errno));
  exit(1);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void open_port(const char *name) {
  int index = (int)if_nametoindex(name), on = 1, room = SOCKET_BYTES;
  if (index == 0) fail("no interface", name);
  int port = socket(AF_PACKET, SOCK_RAW, 0);
  if (port < 0) fail("socket for", name);
  struct packet_mreq all = {.mr_ifindex = index, .mr_type = PACKET_MR_PROMISC};
  struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = index};
  if (setsockopt(port, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) < 0 ||
      setsockopt(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
      setsockopt(port, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) < 0 ||
      setsockopt(port, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) < 0 ||
      setsockopt(port, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) < 0 ||
      bind(port, (struct sockaddr *)&at, sizeof at) < 0)
    fail("cannot listen on", name);
  ports[port_count++] = (struct port){.socket = port, .name = name};
}

/* The port where an address was seen, or -1. */
static int port_of(const unsigned char *address) {
  for (int i = 0; i < seen_count; i++)
    if (memcmp(seen[i].address, address, ETH_ALEN) == 0) return seen[i].port;
  return -1;
}

static void learn(const unsigned char *address, int port) {
  if (port_of(address) >= 0 || seen_count == (int)(sizeof seen / sizeof *seen)) return;
  memcpy(seen[seen_count].address, address, ETH_ALEN);
  seen[seen_count++].port = port;
}

/* Whether to lose a frame: the same ones in every run (xorshift64*, Vigna 2016). */
static int is_lost(long per_million) {
  static uint64_t state = 88172645463325252u;
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return (long)((state * 2685821657736338717u >> 32) % 1000000) < per_million;
}

/* Takes in what has come to a port. */
static void take(int port, int64_t delay_ns, long lost_per_million) {
  static unsigned char buffer[HEADER + FRAME_BYTES];
  for (int taken = 0; taken < 64; taken++) {
    ssize_t len = recv(ports[port].socket, buffer, sizeof buffer, MSG_DONTWAIT | MSG_TRUNC);
    if (len < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ENETDOWN) return;
      fail("cannot receive from", ports[port].name);
    }
    /* What is cut off or does not fit is lost, as on any network. */
    int is_frame = len >= HEADER + ETH_HLEN && (size_t)len <= sizeof buffer;
    if (!is_frame || queued_bytes + (size_t)len > QUEUED_BYTES) continue;
    learn(buffer + HEADER + ETH_ALEN, port);
    if (is_lost(lost_per_million)) continue;
    struct frame *frame = malloc(sizeof *frame + (size_t)len);
    if (frame == NULL) continue;
    *frame = (struct frame){.due_ns = now_ns() + delay_ns, .from = port, .len = (size_t)len};
    memcpy(frame->bytes, buffer, (size_t)len);
    if (first == NULL) first = frame;
    else last->next = frame;
    last = frame;
    queued_bytes += frame->len;
  }
}

/* Sends a frame to where its destination was seen, or to all ports but its own. */
static void pass_on(const struct frame *frame) {
  int to = port_of(frame->bytes + HEADER);
  for (int port = 0; port < port_count; port++) {
    if (port == frame->from || (to >= 0 && to != port)) continue;
    if (send(ports[port].socket, frame->bytes, frame->len, 0) < 0 && errno != ENOBUFS && errno != ENETDOWN)
      fail("cannot send to", ports[port].name);
  }
}

int main(int count, char **arguments) {
  long delay_us = count > 4 ? atol(arguments[1]) : -1, lost_per_million = count > 4 ? atol(arguments[2]) : -1;
  if (delay_us < 0 || delay_us > 1000000 || lost_per_million < 0 || lost_per_million > 1000000 || count > 3 + MAX_PORTS) {
    fprintf(stderr, "usage: delay MICROSECONDS LOST_PER_MILLION INTERFACE INTERFACE...\n");
    return 2;
  }
  prctl(PR_SET_TIMERSLACK, 1000); /* otherwise every wait is 50 microseconds too long */
  for (int i = 3; i < count; i++) open_port(arguments[i]);
  for (;;) {
    struct pollfd polled[MAX_PORTS];
    for (int port = 0; port < port_count; port++)
      polled[port] = (struct pollfd){.fd = ports[port].socket, .events = POLLIN};
    int64_t left_ns = first == NULL ? 1000000000 : first->due_ns - now_ns();
    if (left_ns < 0) left_ns = 0;
    struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
    if (ppoll(polled, (nfds_t)port_count, &left, NULL) < 0 && errno != EINTR) fail("poll", "");
    for (int port = 0; port < port_count; port++)
      if (polled[port].revents != 0) take(port, 1000 * delay_us, lost_per_million);
    while (first != NULL && first->due_ns <= now_ns()) {
      struct frame *frame = first;
      pass_on(frame);
      first = frame->next;
      queued_bytes -= frame->len;
      free(frame);
    }
  }
}
