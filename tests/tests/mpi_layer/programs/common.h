/* What the programs share. Each calls MPI_X, which the layer may stand before, and PMPI_X, which it never does, on equal
   buffers, and compares every byte. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void fail(const char *what, const char *where, long at) {
  if (failures++ < 10) fprintf(stderr, "WRONG: %s, %s, at %ld\n", what, where, at);
}

static void *need(size_t bytes) {
  void *memory = malloc(bytes ? bytes : 1);
  if (!memory) { fprintf(stderr, "WRONG: no memory\n"); exit(3); }
  return memory;
}

/* Smooth data is rising numbers, which compress; the other does not. */
enum { SMOOTH, NOISE };

static void fill(void *buffer, size_t bytes, uint32_t seed, int data) {
  uint32_t *words = buffer, noise = seed * 2654435761u + 1;
  for (size_t i = 0; i < bytes / 4; i++) {
    noise = noise * 1664525u + 1013904223u;
    words[i] = data == SMOOTH ? seed * 100003u + (uint32_t)i * 3 : noise ^ noise >> 15;
  }
  for (size_t i = bytes / 4 * 4; i < bytes; i++) ((char *)buffer)[i] = (char)(seed + i);
}

static void same(const char *what, const char *where, const void *one, const void *other, size_t bytes) {
  if (!memcmp(one, other, bytes)) return;
  size_t at = 0;
  while (((const char *)one)[at] == ((const char *)other)[at]) at++;
  fail(what, where, (long)at);
}

/* Ends the program: all ranks agree on whether all was well. */
static int finish(void) {
  int all = 0, rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%s\n", all ? "not well" : "all is well");
  MPI_Finalize();
  return all != 0;
}
