/* Communicators that come and go: nothing of them is left behind, and a library has few to give. */
#include "collectives.h"

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  Kind numbers = {"int", MPI_INT, 4};
  for (int i = 0; i < 1200; i++) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (i % 100 == 0) run_case(copy, numbers, 4000, SMOOTH, i);
    int own = i, all[64], size, ones[64], places[64];
    MPI_Comm_size(copy, &size);
    for (int j = 0; j < size; j++) ones[j] = 1, places[j] = j;
    MPI_Gatherv(&own, 1, MPI_INT, all, ones, places, MPI_INT, 0, copy);
    MPI_Comm_free(&copy);
  }
  /* More than there would be numbers for if each had another one beside it. */
  static MPI_Comm all[1500];
  int own[4096], sum[4096 * 8], counts[8], places[8], size, rank;
  MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int j = 0; j < size; j++) counts[j] = 4096, places[j] = 4096 * j;
  for (int j = 0; j < 4096; j++) own[j] = rank + j / 100;
  for (int i = 0; i < 1500; i++) {
    MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
    memset(sum, 0, sizeof sum);
    MPI_Gatherv(own, 4096, MPI_INT, sum, counts, places, MPI_INT, 0, all[i]);
    for (int j = 0; rank == 0 && j < 4096 * size; j++)
      if (sum[j] != j / 4096 + j % 4096 / 100) fail("gatherv", "one of many communicators", i);
  }
  /* Nor do broadcasts and allgathers have one, in however many pieces. */
  run_case(all[1499], numbers, 40000, SMOOTH, 0);
  for (int i = 0; i < 1500; i++) MPI_Comm_free(&all[i]);
  MPI_Comm last;
  MPI_Comm_dup(MPI_COMM_WORLD, &last);
  run_case(last, numbers, 4000, SMOOTH, 0);
  MPI_Comm_free(&last);
  return finish();
}
