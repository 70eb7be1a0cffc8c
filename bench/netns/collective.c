/* Open MPI's own collectives, measured as `mgcomp perf` measures those of mgcomp: the same flags, the same data, a
 * barrier before each iteration, the median of the slowest rank, in place, every result checked; the same JSON.
 *
 *   mpirun ... collective --op OP --min BYTES --max BYTES --factor F --iters N --seconds S --pause-us N --element TYPE
 *                         --data FILE
 *
 * Operations: all_gather, all_reduce (sum of f32, f64, i32, i64), all_to_all, broadcast, send_recv. Sizes are bytes.
 */
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_BYTES = 64, MOST = 10000, LEAST = 3, WARMUP = 3, MANY = 100, LOOKS = 10, CHECKED_BYTES = 4 << 20 };

static int rank, ranks;
static const char *op = "all_gather", *element = "f32", *data_path;
static long long min = 8, max = 64 << 20, factor = 2, iters, pause_us;
static double seconds = 40;
static unsigned char *tile;
static size_t tile_len;

static void fail(const char *what, const char *which) {
  fprintf(stderr, "collective: %s %s\n", what, which);
  MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

static int is(const char *name) { return strcmp(op, name) == 0; }

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static int width(void) {
  const char *types[] = {"i8", "u8", "f16", "bf16", "i16", "u16", "f32", "i32", "u32", "f64", "i64", "u64"};
  const int widths[] = {1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    if (strcmp(element, types[i]) == 0) return widths[i];
  fail("unknown element", element);
  return 0;
}

static MPI_Datatype number(void) {
  if (strcmp(element, "f32") == 0) return MPI_FLOAT;
  if (strcmp(element, "f64") == 0) return MPI_DOUBLE;
  if (strcmp(element, "i32") == 0) return MPI_INT32_T;
  if (strcmp(element, "i64") == 0) return MPI_INT64_T;
  fail("no sum here of", element);
  return MPI_DATATYPE_NULL;
}

static void read_flags(int count, char **flags) {
  for (int i = 1; i + 1 < count; i += 2) {
    const char *flag = flags[i], *value = flags[i + 1];
    if (strcmp(flag, "--op") == 0) op = value;
    else if (strcmp(flag, "--min") == 0) min = atoll(value);
    else if (strcmp(flag, "--max") == 0) max = atoll(value);
    else if (strcmp(flag, "--factor") == 0) factor = atoll(value);
    else if (strcmp(flag, "--iters") == 0) iters = atoll(value);
    else if (strcmp(flag, "--pause-us") == 0) pause_us = atoll(value);
    else if (strcmp(flag, "--seconds") == 0) seconds = atof(value);
    else if (strcmp(flag, "--element") == 0) element = value;
    else if (strcmp(flag, "--data") == 0) data_path = value;
    else fail("unknown flag", flag);
  }
  const char *known[] = {"all_gather", "all_reduce", "all_to_all", "broadcast", "send_recv"};
  int found = 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= is(known[i]);
  if (!found) fail("unknown operation", op);
  if (count % 2 == 0 || min < 1 || max < min || max > 1ll << 30 || factor < 2 || data_path == NULL)
    fail("--min, --max or --factor make no sense, or --data is missing", "");
}

static void read_data(void) {
  FILE *file = fopen(data_path, "rb");
  if (file == NULL) fail("cannot read", data_path);
  fseek(file, 0, SEEK_END);
  tile_len = (size_t)ftell(file) / (size_t)width() * (size_t)width();
  /* An odd number of lines, or blocks of a power of two would all be equal. */
  if (tile_len % LINE_BYTES == 0 && tile_len / LINE_BYTES % 2 == 0 && tile_len / LINE_BYTES >= 64) tile_len -= LINE_BYTES;
  rewind(file);
  tile = malloc(tile_len + 1);
  if (tile_len == 0 || tile == NULL || fread(tile, 1, tile_len, file) != tile_len) fail("cannot read", data_path);
  fclose(file);
}

/* The data of a rank, as `mgcomp perf` gives it: the file over and over, from another line on each rank. */
static void fill(int of, size_t offset, unsigned char *into, size_t len) {
  size_t turn = tile_len * (size_t)of / (size_t)ranks / LINE_BYTES * LINE_BYTES, at = (turn + offset) % tile_len;
  while (len > 0) {
    size_t count = tile_len - at < len ? tile_len - at : len;
    memcpy(into, tile + at, count);
    into += count, len -= count, at = 0;
  }
}

static size_t blocks(void) { return is("all_gather") || is("all_to_all") ? (size_t)ranks : 1; }

static int next(void) { return (rank + 1) % ranks; }

static int previous(void) { return (rank + ranks - 1) % ranks; }

/* Puts this rank's data where it has to be. */
static void prepare(unsigned char *buffer, size_t bytes) {
  size_t block = bytes / (size_t)ranks;
  if (is("all_gather")) fill(rank, 0, buffer + block * (size_t)rank, block);
  else if (!is("broadcast") || rank == 0) fill(rank, 0, buffer, bytes);
}

static void carry_out(unsigned char *buffer, unsigned char *aside, size_t bytes) {
  int all = (int)bytes, block = (int)(bytes / (size_t)ranks);
  if (is("all_gather")) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, buffer, block, MPI_BYTE, MPI_COMM_WORLD);
  } else if (is("all_reduce")) {
    MPI_Allreduce(MPI_IN_PLACE, buffer, all / width(), number(), MPI_SUM, MPI_COMM_WORLD);
  } else if (is("all_to_all")) {
    MPI_Alltoall(buffer, block, MPI_BYTE, aside, block, MPI_BYTE, MPI_COMM_WORLD);
  } else if (is("broadcast")) {
    MPI_Bcast(buffer, all, MPI_BYTE, 0, MPI_COMM_WORLD);
  } else {
    MPI_Sendrecv(buffer, all, MPI_BYTE, next(), 0, aside, all, MPI_BYTE, previous(), 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }
}

/* Adds up values of all ranks; MPI may add floats in any order, which makes no difference on two ranks. */
#define COUNT_WRONG_SUMS(type, sum_type, slack)                                               \
  for (size_t i = 0; i < bytes / sizeof(type); i++) {                                         \
    sum_type sum = 0, size = 0;                                                               \
    for (int of = 0; of < ranks; of++) {                                                      \
      type value;                                                                             \
      memcpy(&value, expected + bytes * (size_t)of + i * sizeof value, sizeof value);         \
      sum = (type)(sum + (sum_type)value), size += value < 0 ? -(sum_type)value : (sum_type)value; \
    }                                                                                         \
    type found;                                                                               \
    memcpy(&found, buffer + i * sizeof found, sizeof found);                                  \
    sum_type off = (sum_type)found - sum;                                                     \
    wrong += !((off < 0 ? -off : off) <= (sum_type)(slack) * size);                           \
  }

static uint64_t wrong_sums(const unsigned char *buffer, size_t bytes) {
  unsigned char *expected = malloc(bytes * (size_t)ranks);
  if (expected == NULL) fail("no memory", "");
  uint64_t wrong = 0;
  for (int of = 0; of < ranks; of++) fill(of, 0, expected + bytes * (size_t)of, bytes);
  if (strcmp(element, "f32") == 0) COUNT_WRONG_SUMS(float, double, ranks == 2 ? 0 : 1e-6)
  else if (strcmp(element, "f64") == 0) COUNT_WRONG_SUMS(double, double, ranks == 2 ? 0 : 1e-14)
  else if (strcmp(element, "i32") == 0) COUNT_WRONG_SUMS(int32_t, int64_t, 0)
  else COUNT_WRONG_SUMS(int64_t, int64_t, 0)
  free(expected);
  return wrong;
}

static uint64_t wrong_values(const unsigned char *buffer, const unsigned char *aside, size_t bytes) {
  if (is("all_reduce")) return wrong_sums(buffer, bytes);
  size_t block = bytes / blocks(), step = (size_t)width();
  unsigned char *expected = malloc(block);
  if (expected == NULL) fail("no memory", "");
  uint64_t wrong = 0;
  for (size_t of = 0; of < blocks(); of++) {
    const unsigned char *found = is("all_gather") || is("broadcast") ? buffer : aside;
    if (is("all_gather")) fill((int)of, 0, expected, block);
    else if (is("all_to_all")) fill((int)of, block * (size_t)rank, expected, block);
    else fill(is("broadcast") ? 0 : previous(), 0, expected, block);
    for (size_t i = 0; i < block; i += step) wrong += memcmp(expected + i, found + of * block + i, step) != 0;
  }
  free(expected);
  return wrong;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double iterate(unsigned char *buffer, unsigned char *aside, size_t bytes, int checked, uint64_t *wrong) {
  if (checked) {
    memset(buffer, 0xa5, bytes);
    memset(aside, 0xa5, bytes);
  }
  if (checked || is("all_reduce")) prepare(buffer, bytes);
  double rested = now_seconds() + 1e-6 * (double)pause_us;
  while (now_seconds() < rested) sched_yield();
  MPI_Barrier(MPI_COMM_WORLD);
  double started = now_seconds();
  carry_out(buffer, aside, bytes);
  double took = now_seconds() - started;
  MPI_Barrier(MPI_COMM_WORLD);
  if (checked) *wrong += wrong_values(buffer, aside, bytes);
  return took;
}

static double bus_factor(void) {
  if (is("all_reduce")) return 2.0 * (ranks - 1) / ranks;
  return is("all_gather") || is("all_to_all") ? (double)(ranks - 1) / ranks : 1;
}

static void measure(unsigned char *buffer, unsigned char *aside, size_t bytes, double share) {
  static double took[MOST];
  uint64_t wrong = 0, all_wrong = 0;
  double started = now_seconds(), round = 0;
  prepare(buffer, bytes);
  for (int i = 0; i < WARMUP; i++) {
    double before = now_seconds();
    iterate(buffer, aside, bytes, i == 0, &wrong);
    round = now_seconds() - before;
    int goes_on = now_seconds() - started < share / 4;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!goes_on) break;
  }
  double fitting = (share - (now_seconds() - started)) / round;
  long long count = iters > 0 ? iters : fitting < LEAST ? LEAST : fitting > MOST ? MOST : (long long)fitting;
  if (count > MOST) count = MOST;
  MPI_Bcast(&count, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
  for (long long i = 0; i < count; i++) {
    took[i] = iterate(buffer, aside, bytes, i + 1 == count || bytes <= CHECKED_BYTES, &wrong);
    /* They may take longer than those before. */
    if (iters > 0 || count <= MANY || i % (count / LOOKS) != 0) continue;
    int goes_on = now_seconds() - started < 1.25 * share;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!goes_on) count = i + 1;
  }
  qsort(took, (size_t)count, sizeof *took, by_size);
  double median = took[count / 2], slowest = 0;
  MPI_Reduce(&median, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank != 0) return;
  double speed = 1e-9 * (double)bytes / slowest;
  printf("{\"op\":\"%s\",\"link\":\"tcp\",\"ranks\":%d,\"bytes\":%zu,\"element\":\"%s\",\"time_us\":%.3f,"
         "\"algbw_gbps\":%.6f,\"busbw_gbps\":%.6f,\"wrong\":%llu,\"ratio\":1.0,\"algorithms\":{},"
         "\"mode\":\"openmpi\"}\n",
         op, ranks, bytes, element, 1e6 * slowest, speed, speed * bus_factor(), (unsigned long long)all_wrong);
  fflush(stdout);
}

int main(int count, char **flags) {
  MPI_Init(&count, &flags);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  read_flags(count, flags);
  read_data();
  size_t unit = blocks() * (size_t)width(), longest = (size_t)max + unit;
  unsigned char *buffer = calloc(longest, 1), *aside = calloc(longest, 1);
  if (buffer == NULL || aside == NULL) fail("no memory for", "the buffers");
  int sizes = 0, done = 0;
  for (long long bytes = min; bytes <= max; bytes *= factor) sizes++;
  double until = now_seconds() + seconds;
  for (long long bytes = min; bytes <= max; bytes *= factor, done++) {
    size_t rounded = (size_t)bytes / unit * unit;
    double left = until - now_seconds();
    MPI_Bcast(&left, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (left < 0.01) left = 0.01;
    measure(buffer, aside, rounded < unit ? unit : rounded, left / (sizes - done));
  }
  free(buffer);
  free(aside);
  free(tile);
  MPI_Finalize();
  return 0;
}
