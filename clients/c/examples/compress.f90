! Compresses a field of numbers into a frame, and back, through iso_c_binding.
!
!     gfortran compress.f90 -lmgcomp -o compress && ./compress
module mgcomp
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: mgcompBoundFrame, mgcompEncodeFrame, mgcompDecodeFrame, mgcompWorkers, check

  integer(c_int32_t), parameter, public :: MGCOMP_RESULT_SUCCESS = 0
  integer(c_int32_t), parameter, public :: MGCOMP_ELEMENT_F64 = 7
  integer(c_int32_t), parameter, public :: MGCOMP_ALGORITHM_INT = 10

  type, bind(c) :: mgcompWorkers
    integer(c_int64_t) :: id = 0
  end type

  interface
    integer(c_int32_t) function mgcompLastError(message) bind(c, name="mgcompLastError")
      import :: c_int32_t, c_ptr
      type(c_ptr), intent(out) :: message
    end function

    integer(c_int32_t) function mgcompBoundFrame(rawBytes, options, frameBytes) bind(c, name="mgcompBoundFrame")
      import :: c_int32_t, c_size_t, c_ptr
      integer(c_size_t), value :: rawBytes
      type(c_ptr), value :: options
      integer(c_size_t), intent(out) :: frameBytes
    end function

    integer(c_int32_t) function mgcompEncodeFrame(algorithm, element, raw, rawBytes, options, frame, &
        frameCapacity, frameBytes) bind(c, name="mgcompEncodeFrame")
      import :: c_int32_t, c_size_t, c_ptr
      integer(c_int32_t), value :: algorithm, element
      type(c_ptr), value :: raw, options, frame
      integer(c_size_t), value :: rawBytes, frameCapacity
      integer(c_size_t), intent(out) :: frameBytes
    end function

    integer(c_int32_t) function mgcompDecodeFrame(frame, frameBytes, workers, raw, rawCapacity, rawBytes) &
        bind(c, name="mgcompDecodeFrame")
      import :: c_int32_t, c_size_t, c_ptr, mgcompWorkers
      type(c_ptr), value :: frame, raw
      integer(c_size_t), value :: frameBytes, rawCapacity
      type(mgcompWorkers), value :: workers
      integer(c_size_t), intent(out) :: rawBytes
    end function

    integer(c_size_t) function strlen(text) bind(c, name="strlen")
      import :: c_size_t, c_ptr
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! Ends the program with the text of the last error if a call failed.
  subroutine check(result)
    integer(c_int32_t), intent(in) :: result
    type(c_ptr) :: message
    character(kind=c_char), pointer :: text(:)

    if (result == MGCOMP_RESULT_SUCCESS) return
    if (mgcompLastError(message) /= MGCOMP_RESULT_SUCCESS) then
      call c_f_pointer(message, text, [strlen(message)])
      print *, "mgcomp: ", text
    end if
    error stop 1
  end subroutine
end module

program compress
  use, intrinsic :: iso_c_binding
  use mgcomp
  implicit none
  integer, parameter :: n = 65536
  real(c_double), target :: field(n), again(n)
  integer(c_int8_t), allocatable, target :: frame(:)
  integer(c_size_t) :: capacity, frame_bytes, again_bytes
  type(mgcompWorkers) :: alone
  integer :: i

  do i = 1, n
    field(i) = real(i, c_double) / 4
  end do
  call check(mgcompBoundFrame(int(8 * n, c_size_t), c_null_ptr, capacity))
  allocate(frame(capacity))
  call check(mgcompEncodeFrame(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_F64, c_loc(field), int(8 * n, c_size_t), &
    c_null_ptr, c_loc(frame), capacity, frame_bytes))
  call check(mgcompDecodeFrame(c_loc(frame), frame_bytes, alone, c_loc(again), int(8 * n, c_size_t), again_bytes))
  if (again_bytes /= 8 * n .or. any(abs(field - again) > 0)) error stop "the field differs"
  print '(i0, a, i0, a)', 8 * n, " bytes as ", frame_bytes, ", and back"
end program
