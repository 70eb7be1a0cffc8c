/* A plain copy through a TCP socket: what a link carries when nobody does anything clever.
 *
 *   copy serve ADDRESS PORT          takes one connection, reads all of it, and answers
 *   copy send ADDRESS PORT BYTES     sends so many bytes and prints the rate in Gb/s
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 256 << 10 };

static void fail(const char *what) {
  fprintf(stderr, "copy: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static struct sockaddr_in address_of(const char *address, const char *port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
    fprintf(stderr, "copy: %s is no address\n", address);
    exit(1);
  }
  return to;
}

static void serve(struct sockaddr_in at) {
  static char buffer[BUFFER_BYTES];
  int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (listener < 0) fail("socket");
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 1) < 0) fail("listen");
  int peer = accept(listener, NULL, NULL);
  if (peer < 0) fail("accept");
  ssize_t got;
  while ((got = read(peer, buffer, sizeof buffer)) > 0) {}
  if (got < 0) fail("read");
  if (write(peer, "", 1) != 1) fail("write");
  close(peer);
}

static void send_bytes(struct sockaddr_in to, long long bytes) {
  static char buffer[BUFFER_BYTES];
  int peer = -1;
  /* The other side may not listen yet. */
  for (int attempt = 0; attempt < 200; attempt++) {
    peer = socket(AF_INET, SOCK_STREAM, 0);
    if (peer < 0) fail("socket");
    if (connect(peer, (struct sockaddr *)&to, sizeof to) == 0) break;
    close(peer);
    peer = -1;
    usleep(50 * 1000);
  }
  if (peer < 0) fail("connect");
  double started = now_seconds();
  for (long long left = bytes; left > 0;) {
    ssize_t sent = write(peer, buffer, left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES);
    if (sent < 0) fail("write");
    left -= sent;
  }
  shutdown(peer, SHUT_WR);
  char done;
  if (read(peer, &done, 1) != 1) fail("read");
  printf("%.4f\n", 8e-9 * (double)bytes / (now_seconds() - started));
  close(peer);
}

int main(int count, char **arguments) {
  if (count == 4 && strcmp(arguments[1], "serve") == 0) {
    serve(address_of(arguments[2], arguments[3]));
  } else if (count == 5 && strcmp(arguments[1], "send") == 0) {
    send_bytes(address_of(arguments[2], arguments[3]), atoll(arguments[4]));
  } else {
    fprintf(stderr, "usage: copy serve ADDRESS PORT | copy send ADDRESS PORT BYTES\n");
    return 2;
  }
  return 0;
}
