/* More than 2 GiB: by a datatype of many bytes, and by a large count where MPI has that. */
#include "common.h"

static const size_t PIECE = 1 << 20;
enum { PIECES = 2100 };

static uint32_t word(size_t i, uint32_t seed) { return seed + (uint32_t)i * 3; }

static void arrive(const char *what, uint32_t *buffer, size_t words, uint32_t seed) {
  for (size_t i = 0; i < words; i++)
    if (buffer[i] != word(i, seed)) {
      fail("received", what, (long)i);
      return;
    }
}

int main(int argc, char **argv) {
  MPI_Datatype piece;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  size_t bytes = PIECES * PIECE, words = bytes / 4;
  uint32_t *buffer = need(bytes);
  MPI_Type_contiguous((int)PIECE, MPI_BYTE, &piece);
  MPI_Type_commit(&piece);
  for (size_t i = 0; i < words; i++) buffer[i] = rank == 0 ? word(i, 5) : 0;
  MPI_Bcast(buffer, PIECES, piece, 0, MPI_COMM_WORLD);
  arrive("bcast", buffer, words, 5);
  /* Each rank's half goes to the other one. */
  size_t half = words / 2;
  for (size_t i = 0; i < words; i++) buffer[i] = i / half == (size_t)rank ? word(i, 9) : 0;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, PIECES / 2, piece, MPI_COMM_WORLD);
  arrive("allgather", buffer, words, 9);
  MPI_Type_free(&piece);
#if MPI_VERSION >= 4
  for (size_t i = 0; i < words; i++) buffer[i] = rank == 1 ? word(i, 7) : 0;
  MPI_Bcast_c(buffer, (MPI_Count)bytes, MPI_BYTE, 1, MPI_COMM_WORLD);
  arrive("bcast_c", buffer, words, 7);
  for (size_t i = 0; i < words; i++) buffer[i] = word(i, 3 - (uint32_t)rank);
  MPI_Allreduce_c(MPI_IN_PLACE, buffer, (MPI_Count)words, MPI_UINT32_T, MPI_MIN, MPI_COMM_WORLD);
  arrive("allreduce_c", buffer, words, 2);
  /* More values than an int counts. (Not the least of unsigned chars, which some MPICH takes for signed.) */
  for (size_t i = 0; i < words; i++) buffer[i] = word(i, 1) | (rank == 0 ? 0xff00ff00 : 0x00ff00ff);
  MPI_Allreduce_c(MPI_IN_PLACE, buffer, (MPI_Count)bytes, MPI_BYTE, MPI_BAND, MPI_COMM_WORLD);
  arrive("allreduce_c of bytes", buffer, words, 1);
#else
  if (rank == 0) printf("SKIPPED: this MPI has no large counts\n");
#endif
  free(buffer);
  return finish();
}
