#include "page_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "collective/registered_memory.h"
#include "registered_storages.h"

namespace dure::python {
namespace {

// Torch's own allocator, but for where large memory begins. It is freed as torch's own is: torch
// frees with the allocator of the day what it got from the one of the day before.
class PageAllocator : public c10::Allocator {
 public:
  // libtorch 1 declares the first of these, libtorch 2 the second and third: the one that it
  // declares overrides it, the others are never called.
  c10::DataPtr allocate(std::size_t bytes) const { return allocateAtPage(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return allocateAtPage(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return torchs_->raw_deleter(); }

 private:
  c10::DataPtr allocateAtPage(std::size_t bytes) const {
    void* data = nullptr;
    if (bytes < RegisteredStorages::kLeast || posix_memalign(&data, page_, bytes) != 0) {
      return torchs_->allocate(bytes);  // which tells in torch's words if there is no memory
    }
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, torchs_->raw_deleter(), c10::Device(c10::DeviceType::CPU)};
  }

  c10::Allocator* const torchs_ = c10::GetDefaultCPUAllocator();
  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
};

}  // namespace

void beginTensorsAtPages() {
  if (!collective::zeroCopyIsOn()) return;
  if (c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator()) return;
  static PageAllocator allocator;
  c10::SetCPUAllocator(&allocator);
}

}  // namespace dure::python
