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
  return finish();
}
