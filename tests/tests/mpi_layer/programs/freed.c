/* Functions that a program has called when an attribute goes may use the communicator that is freed: nothing of that is left
   behind. */
#include "freed.h"

enum { TIMES = 300 };

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int key;
  prepare();
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, use, &key, NULL);
  for (int i = 0; i < TIMES; i++) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    /* Attributes go from the last to the first, and that of the layer comes with the first collective. */
    MPI_Comm_set_attr(copy, key, NULL);
    gather(copy, i);
    if (i % 2) MPI_Comm_free(&copy);
    else MPI_Comm_disconnect(&copy);
    if (copy != MPI_COMM_NULL) fail("handle", "a communicator that was freed", i);
  }
  if (freed != TIMES) fail("freed", "communicators", freed);
  MPI_Comm_free_keyval(&key);
  return finish();
}
