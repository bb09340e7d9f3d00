// HDF5 files that lie in memory, read where they lie.

#include "format/hdf5.h"

namespace dure::format {
namespace {

// HDF5 makes a copy of an image by these functions, several times on its way: here each copy is the
// image itself, which nobody writes to.
void* sameImage(std::size_t, H5FD_file_image_op_t, void* image) { return image; }

void* copyNothing(void* to, const void*, std::size_t, H5FD_file_image_op_t, void*) { return to; }

void* growNever(void*, std::size_t, H5FD_file_image_op_t, void*) { return nullptr; }

herr_t freeNothing(void*, H5FD_file_image_op_t, void*) { return 0; }

void* sameUser(void* image) { return image; }

herr_t freeNoUser(void*) { return 0; }

}  // namespace

H5Id openHdf5(std::span<const std::byte> bytes) {
  const H5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // Never written to, whatever the interface says.
  void* const image = const_cast<std::byte*>(bytes.data());
  H5FD_file_image_callbacks_t callbacks = {sameImage, copyNothing, growNever, freeNothing,
                                           sameUser,  freeNoUser,  image};
  constexpr std::size_t kGrowth = 4096;
  if (H5Pset_fapl_core(access.get(), kGrowth, false) < 0 ||
      H5Pset_file_image_callbacks(access.get(), &callbacks) < 0 ||
      H5Pset_file_image(access.get(), image, bytes.size()) < 0) {
    return {-1, H5Fclose};
  }
  // A name that no file can have: HDF5 refuses an image whose name is that of a file.
  return {H5Fopen("/dev/null/image", H5F_ACC_RDONLY, access.get()), H5Fclose};
}

}  // namespace dure::format
