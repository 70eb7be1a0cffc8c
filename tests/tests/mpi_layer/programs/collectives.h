/* Every collective, with and without the layer. LARGE takes those with large counts. */
#include "common.h"

#ifdef LARGE
#define SUFFIX _c
typedef MPI_Count Count;
typedef MPI_Aint Place;
#else
#define SUFFIX
typedef int Count;
typedef int Place;
#endif
#define JOIN(a, b, c) a##b##c
#define NAME(a, b, c) JOIN(a, b, c)

typedef struct {
  const char *name;
  MPI_Datatype type;
  MPI_Aint extent;
} Kind;

/* What a case works on. */
typedef struct {
  MPI_Comm comm;
  Kind kind;
  int count, data, rank, size, root;
  size_t block, all;
  char *send, *sent, *one, *other;
  Count *counts, *others;
  Place *places, *elsewhere;
} Case;

static void begin(Case *c, uint32_t seed, int receives_anything) {
  fill(c->send, c->all, seed + c->rank, c->data);
  memcpy(c->sent, c->send, c->all);
  fill(c->one, c->all, receives_anything ? seed + 50 + c->rank : 7, receives_anything ? c->data : NOISE);
  memcpy(c->other, c->one, c->all);
}

static void end(Case *c, const char *what, int code, int expected) {
  char where[200];
  snprintf(where, sizeof where, "%s, %d of %s, data %d, rank %d of %d", what, c->count, c->kind.name, c->data, c->rank, c->size);
  if (code != expected) fail("code", where, code);
  same("received", where, c->one, c->other, c->all);
  same("sent", where, c->send, c->sent, c->all);
}

/* Calls MPI_X with `one` and PMPI_X with `other` in the place of INTO. */
#define BOTH(what, in_place, call, ...) do { \
    begin(c, 11 + __LINE__, in_place); \
    char *into = c->one; \
    int code = NAME(MPI_, call, SUFFIX)(__VA_ARGS__); \
    into = c->other; \
    int expected = NAME(PMPI_, call, SUFFIX)(__VA_ARGS__); \
    end(c, what, code, expected); \
  } while (0)

static void even(Case *c) {
  MPI_Datatype t = c->kind.type;
  int n = c->count, is_root = c->rank == c->root;
  BOTH("bcast", 1, Bcast, into, n, t, c->root, c->comm);
  BOTH("allgather", 0, Allgather, c->send, n, t, into, n, t, c->comm);
  BOTH("allgather in place", 1, Allgather, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, into, n, t, c->comm);
  BOTH("alltoall", 0, Alltoall, c->send, n, t, into, n, t, c->comm);
  BOTH("alltoall in place", 1, Alltoall, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, into, n, t, c->comm);
  BOTH("gather", 0, Gather, c->send, n, t, into, n, t, c->root, c->comm);
  BOTH("gather in place", 1, Gather, is_root ? MPI_IN_PLACE : c->send, n, t, into, n, t, c->root, c->comm);
  BOTH("gather, nothing where nothing counts", 0, Gather, c->send, n, t, is_root ? into : NULL, is_root ? n : -1,
       is_root ? t : MPI_DATATYPE_NULL, c->root, c->comm);
  BOTH("scatter", 0, Scatter, c->send, n, t, into, n, t, c->root, c->comm);
  BOTH("scatter in place", 0, Scatter, c->send, n, t, is_root ? MPI_IN_PLACE : into, n, t, c->root, c->comm);
}

/* Blocks of different lengths, some empty, in no order, with gaps. */
static void lay_out(Case *c) {
  for (int i = 0; i < c->size; i++) {
    int of_pair = (i + c->rank) % 3;
    c->counts[i] = i % 3 == 1 ? 0 : c->count - c->count / 7 * i;
    if (c->counts[i] < 0) c->counts[i] = 0;
    c->others[i] = of_pair == 0 ? c->count : of_pair == 1 ? c->count / 5 : 0;
    c->places[i] = (c->size - 1 - i) * (c->count + 1) + 1;
    c->elsewhere[i] = (i + 1) % c->size * (c->count + 1);
  }
}

static void uneven(Case *c) {
  MPI_Datatype t = c->kind.type;
  lay_out(c);
  int own = c->counts[c->rank], is_root = c->rank == c->root;
  Count *counts = c->counts, *others = c->others;
  Place *places = c->places, *elsewhere = c->elsewhere;
  BOTH("allgatherv", 0, Allgatherv, own ? c->send : NULL, own, t, into, counts, places, t, c->comm);
  BOTH("allgatherv in place", 1, Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, into, counts, places, t, c->comm);
  BOTH("alltoallv", 0, Alltoallv, c->send, others, places, t, into, others, elsewhere, t, c->comm);
  BOTH("alltoallv in place", 1, Alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, into, others, elsewhere, t, c->comm);
  BOTH("gatherv", 0, Gatherv, c->send, own, t, into, counts, places, t, c->root, c->comm);
  BOTH("gatherv in place", 1, Gatherv, is_root ? MPI_IN_PLACE : c->send, own, t, into, is_root ? counts : NULL,
       is_root ? places : NULL, t, c->root, c->comm);
  BOTH("scatterv", 0, Scatterv, c->send, counts, places, t, into, own, t, c->root, c->comm);
  BOTH("scatterv in place", 0, Scatterv, c->send, is_root ? counts : NULL, is_root ? places : NULL, t,
       is_root ? MPI_IN_PLACE : into, own, t, c->root, c->comm);
}

/* A rank may have nothing, and say so by values without bytes, which lie nowhere. Not everywhere: both MPIs wait for a message
   that nobody sends where a rank says so to the root of a gatherv or scatterv, and Open MPI chooses by the size of what a rank
   sends how all go on with an allgatherv. */
static void nothing(Case *c) {
  MPI_Datatype t = c->kind.type, empty;
  lay_out(c);
  MPI_Type_contiguous(0, MPI_BYTE, &empty);
  MPI_Type_commit(&empty);
  int own = c->counts[c->rank];
  Count *counts = c->counts;
  Place *places = c->places;
  int has_none = own == 0, is_empty = has_none && c->rank == c->root;
#ifndef OPEN_MPI
  BOTH("allgatherv of nothing", 0, Allgatherv, has_none ? NULL : c->send, has_none ? 1 : own, has_none ? empty : t, into,
       counts, places, t, c->comm);
#endif
  BOTH("gatherv of nothing", 0, Gatherv, is_empty ? NULL : c->send, is_empty ? 1 : own, is_empty ? empty : t, into, counts,
       places, t, c->root, c->comm);
  BOTH("scatterv of nothing", 0, Scatterv, c->send, counts, places, t, is_empty ? NULL : into, is_empty ? 1 : own,
       is_empty ? empty : t, c->root, c->comm);
  /* Rank 0 sends nothing, and gets something. */
  Count *ones = need(c->size * sizeof *ones), *others = c->others;
  Place *zeros = need(c->size * sizeof *zeros);
  for (int i = 0; i < c->size; i++) ones[i] = 1, zeros[i] = 0;
  int is_silent = c->rank == 0;
  Count *come = need(c->size * sizeof *come);
  memcpy(come, others, c->size * sizeof *come);
  come[0] = 0;
  BOTH("alltoallv of nothing", 0, Alltoallv, is_silent ? NULL : c->send, is_silent ? ones : others,
       is_silent ? zeros : places, is_silent ? empty : t, into, come, c->elsewhere, t, c->comm);
  free(ones), free(zeros), free(come);
  MPI_Type_free(&empty);
}

static Case open_case(MPI_Comm comm, Kind kind, int count, int data, int root) {
  Case c = {.comm = comm, .kind = kind, .count = count, .data = data};
  MPI_Comm_rank(comm, &c.rank);
  MPI_Comm_size(comm, &c.size);
  c.root = root % c.size;
  c.block = (size_t)(count + 1) * kind.extent;
  c.all = c.block * (c.size + 1);
  c.send = need(c.all), c.sent = need(c.all), c.one = need(c.all), c.other = need(c.all);
  c.counts = need(c.size * sizeof(Count)), c.others = need(c.size * sizeof(Count));
  c.places = need(c.size * sizeof(Place)), c.elsewhere = need(c.size * sizeof(Place));
  return c;
}

static void close_case(Case *c) {
  free(c->send), free(c->sent), free(c->one), free(c->other);
  free(c->counts), free(c->places), free(c->others), free(c->elsewhere);
}

static void run_case(MPI_Comm comm, Kind kind, int count, int data, int root) {
  Case c = open_case(comm, kind, count, data, root);
  even(&c);
  uneven(&c);
  nothing(&c);
  close_case(&c);
}
