// The codecs that have kernels, one line each:
//
//   MGC_CODEC(name, algorithm, encode scratch, decode scratch)
//
// `name` is that of the folder and file (name/name.cu) and of the kernels (name_encode, name_decode, name_estimate);
// `algorithm` is the frame's. The scratch is shared memory, in bytes for each KiB of the chunk size. The hosts
// read these lines as text. Who includes this file defines MGC_CODEC first.
MGC_CODEC(bdi, 1, 256, 64)
MGC_CODEC(fpc, 2, 256, 256)
MGC_CODEC(cpackz, 3, 512, 256)
MGC_CODEC(zvc, 4, 128, 64)
MGC_CODEC(rle, 5, 384, 192)
MGC_CODEC(bpc, 7, 64, 1040)
MGC_CODEC(ibp, 8, 256, 0)
MGC_CODEC(xp, 9, 512, 320)
MGC_CODEC(int, 10, 160, 1152)
