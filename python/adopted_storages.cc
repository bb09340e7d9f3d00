#include "adopted_storages.h"

#include <c10/core/CPUAllocator.h>

#include <memory>
#include <utility>
#include <vector>

#include "collective/adopted_memory.h"

namespace dure::python {
namespace {

// With this sum the same numbers are summed so many times. Adopting costs as much as a few sums, so
// a tensor that is summed once or twice stays what it is.
constexpr int kTimes = 3;
constexpr std::size_t kMostSeen = 4096;

// What an adopted storage has instead of its own memory: that, and what is to be done before it is
// freed.
struct AdoptedData {
  c10::DataPtr original;  // the first, so that it is freed last
  std::vector<std::unique_ptr<collective::AdoptedMemory>> parts;
};

void freeAdopted(void* context) {
  const std::unique_ptr<AdoptedData> data(static_cast<AdoptedData*>(context));
  for (const auto& part : data->parts) part->forgetContents();
}

AdoptedData* adoptedDataOf(const c10::StorageImpl& storage) {
  return storage.data_ptr().cast_context<AdoptedData>(&freeAdopted);
}

// Memory of another kind may be shared already, or of a file, or somebody else's.
bool isTorchsOwn(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  return data.device().is_cpu() && data.get_context() == data.get() &&
         data.get_deleter() == c10::GetDefaultCPUAllocator()->raw_deleter();
}

void adopt(c10::StorageImpl& storage, std::span<std::byte> range) {
  auto adopted = collective::AdoptedMemory::adopt(range);
  if (!adopted) return;  // sums work without it
  AdoptedData* data = adoptedDataOf(storage);
  if (!data) {
    auto fresh = std::make_unique<AdoptedData>();
    data = fresh.get();
    void* begin = storage.data_ptr().get();
    const c10::Device device = storage.data_ptr().device();
    data->original = storage.set_data_ptr({begin, fresh.release(), &freeAdopted, device});
  }
  data->parts.push_back(std::move(*adopted));
}

}  // namespace

void AdoptedStorages::summing(const at::Tensor& tensor) {
  if (tensor.nbytes() < kLeast || !tensor.is_cpu() || !tensor.is_contiguous()) return;
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (!isTorchsOwn(storage) && !adoptedDataOf(storage)) return;
  const std::span<std::byte> range(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
  const auto known = seen_.find(range.data());
  if (known == seen_.end() || known->second.storage._unsafe_get_target() != &storage ||
      known->second.bytes != range.size()) {
    if (seen_.size() >= kMostSeen) forgetSome();
    seen_.insert_or_assign(range.data(),
                           Seen{tensor.storage().getWeakStorageImpl(), range.size(), 1});
    return;
  }
  Seen& seen = known->second;
  if (seen.times < kTimes && ++seen.times == kTimes) adopt(storage, range);
}

void AdoptedStorages::forgetSome() {
  std::erase_if(seen_, [](const auto& entry) { return entry.second.storage.expired(); });
  if (seen_.size() >= kMostSeen) seen_.clear();
}

}  // namespace dure::python
