#include "registered_storages.h"

#include <c10/core/CPUAllocator.h>

#include <memory>
#include <utility>
#include <vector>

#include "collective/registered_memory.h"

namespace dure::python {
namespace {

// A tensor is registered at its third all-reduce. Registering costs as much as a few all-reduces,
// so it does not pay for one or two.
constexpr int kTimes = 3;
constexpr std::size_t kMostSeen = 4096;

// What a registered storage has instead of its own memory: that, and what to undo before it is
// freed.
struct RegisteredData {
  c10::DataPtr original;  // the first, so that it is freed last
  std::vector<std::unique_ptr<collective::RegisteredMemory>> parts;
};

void freeRegistered(void* context) {
  const std::unique_ptr<RegisteredData> data(static_cast<RegisteredData*>(context));
  for (const auto& part : data->parts) part->discardContents();
}

RegisteredData* registeredDataOf(const c10::StorageImpl& storage) {
  return storage.data_ptr().cast_context<RegisteredData>(&freeRegistered);
}

// Memory of another kind may be shared already, or of a file, or somebody else's.
bool isTorchsOwn(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  return data.device().is_cpu() && data.get_context() == data.get() &&
         data.get_deleter() == c10::GetDefaultCPUAllocator()->raw_deleter();
}

void registerStorage(c10::StorageImpl& storage, std::span<std::byte> range) {
  auto registered = collective::RegisteredMemory::registerRange(range);
  if (!registered) return;  // all-reduces work without it
  RegisteredData* data = registeredDataOf(storage);
  if (!data) {
    auto fresh = std::make_unique<RegisteredData>();
    data = fresh.get();
    void* begin = storage.data_ptr().get();
    const c10::Device device = storage.data_ptr().device();
    data->original = storage.set_data_ptr({begin, fresh.release(), &freeRegistered, device});
  }
  data->parts.push_back(std::move(*registered));
}

}  // namespace

void RegisteredStorages::beforeAllReduce(const at::Tensor& tensor) {
  if (tensor.nbytes() < kLeast || !tensor.is_cpu() || !tensor.is_contiguous()) return;
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (!isTorchsOwn(storage) && !registeredDataOf(storage)) return;
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
  if (seen.times < kTimes && ++seen.times == kTimes) registerStorage(storage, range);
}

void RegisteredStorages::forgetSome() {
  std::erase_if(seen_, [](const auto& entry) { return entry.second.storage.expired(); });
  if (seen_.size() >= kMostSeen) seen_.clear();
}

}  // namespace dure::python
