! Collectives by the module of Fortran 2008, where the error code may be left out.
program layered
  use mpi_f08
  implicit none
  integer, parameter :: n = 40000
  integer :: rank, ranks, i, j, wrong, all_wrong
  integer, allocatable :: one(:), all(:)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  allocate (one(n), all(n*ranks))
  one = -1
  if (rank == 1) one = [(3*i, i=1, n)]
  call MPI_Bcast(one, n, MPI_INTEGER, 1, MPI_COMM_WORLD)
  wrong = count(one /= [(3*i, i=1, n)])
  all(rank*n + 1:(rank + 1)*n) = one + rank
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INTEGER, MPI_COMM_WORLD)
  wrong = wrong + count(all /= [((3*i + j, i=1, n), j=0, ranks - 1)])
  one = [(3*i + rank, i=1, n)]
  call MPI_Allreduce(MPI_IN_PLACE, one, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  wrong = wrong + count(one /= [(3*i*ranks + ranks*(ranks - 1)/2, i=1, n)])
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. all_wrong == 0) print '(a)', 'all is well'
  call MPI_Finalize()
  if (all_wrong /= 0) stop 1
end program
