/* A communicator that is freed may go only with the last request on it, and functions that a program has called then may use it
   still: on some ranks later than on others, before and after what the layer keeps there. A later one is what it was. */
#include "freed.h"

enum { TIMES = 240 };

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, keys[3], word;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  prepare();
  for (int j = 0; j < 3; j++) MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, use, &keys[j], NULL);
  for (int i = 0; i < TIMES; i++) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_attr(copy, keys[0], NULL);
    if (i / 4 % 2) gather(copy, i);
    for (int j = 1; j <= i % 3; j++) MPI_Comm_set_attr(copy, keys[j], NULL);
    /* On all ranks, on one of them, on none. */
    int has_request = i % 4 == 0 || (i % 4 < 3 && i / 8 % size == rank);
    MPI_Request request;
    if (has_request) MPI_Recv_init(&word, 1, MPI_INT, 0, 5, copy, &request);
    MPI_Comm_free(&copy);
    if (copy != MPI_COMM_NULL) fail("handle", "a communicator that was freed", i);
    if (has_request) MPI_Request_free(&request);
  }
  if (freed != TIMES * 2) fail("freed", "attributes", freed);
  for (int j = 0; j < 3; j++) MPI_Comm_free_keyval(&keys[j]);
  return finish();
}
