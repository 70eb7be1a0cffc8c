! MPI's library for Fortran is loaded for this part of the program alone, and later for all of it: what stands for "in place" here is
! still what only this part has.
program promoted
  use mpi
  use iso_c_binding
  implicit none
  interface
    function dlopen(name, flags) bind(c) result(library)
      import
      character(kind=c_char) :: name(*)
      integer(c_int), value :: flags
      type(c_ptr) :: library
    end function
  end interface
  integer(c_int), parameter :: flags = 2 + 4 + 256 ! RTLD_NOW, RTLD_NOLOAD and RTLD_GLOBAL
  integer, parameter :: n = 40000
  integer :: ierr, rank, ranks, i, j, time, wrong, all_wrong
  integer, allocatable :: all(:)
  type(c_ptr) :: library
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  allocate (all(n*ranks))
  wrong = 0
  do time = 1, 2
    all = -1
    all(rank*n + 1:(rank + 1)*n) = [(3*i + rank, i=1, n)]
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    wrong = wrong + count(all /= [((3*i + j, i=1, n), j=0, ranks - 1)]) + ierr
    library = dlopen(c_char_'libmpi_mpifh.so.40'//c_null_char, flags)
    if (.not. c_associated(library)) library = dlopen(c_char_'libmpichfort.so.12'//c_null_char, flags)
    if (.not. c_associated(library)) wrong = wrong + 1
  end do
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. all_wrong == 0) print '(a)', 'all is well'
  call MPI_Finalize(ierr)
  if (all_wrong /= 0) stop 1
end program
