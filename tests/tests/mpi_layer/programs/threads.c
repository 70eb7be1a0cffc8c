/* Two threads, each on a communicator of its own, at the same time. */
#include "collectives.h"

#include <pthread.h>

static void *work(void *comm) {
  for (int i = 0; i < 6; i++) run_case(*(MPI_Comm *)comm, (Kind){"int", MPI_INT, 4}, 10000 + 1000 * i, i % 2, i);
  return NULL;
}

int main(int argc, char **argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (level < MPI_THREAD_MULTIPLE) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) printf("SKIPPED: this MPI serves one thread at a time\n");
    return finish();
  }
  MPI_Comm comms[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, &comms[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) MPI_Comm_free(&comms[i]);
  return finish();
}
