// Where the tensors of a TorchScript file lie: a zip file with a pickle that names them and a
// member for the numbers of each.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>

#include "format/pickle.h"
#include "format/tensor_places.h"
#include "format/zip_directory.h"

namespace dure::format {
namespace {

constexpr int kMostDepth = 200;
constexpr std::size_t kMostSteps = 10'000'000;
constexpr std::size_t kMostExtra = std::size_t{64} << 20u;

std::optional<DType> storageType(const std::string& global) {
  static const std::map<std::string, DType> kTypes = {
      {"torch FloatStorage", DType::kF32}, {"torch DoubleStorage", DType::kF64},
      {"torch HalfStorage", DType::kF16},  {"torch BFloat16Storage", DType::kBF16},
      {"torch LongStorage", DType::kI64},  {"torch IntStorage", DType::kI32},
      {"torch ShortStorage", DType::kI16}, {"torch CharStorage", DType::kI8},
      {"torch ByteStorage", DType::kU8},   {"torch BoolStorage", DType::kBool}};
  const auto found = kTypes.find(global);
  if (found == kTypes.end()) return std::nullopt;
  return found->second;
}

// The strides of C order.
std::vector<std::int64_t> usualStrides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

bool isUsual(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  const auto usual = usualStrides(shape);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && strides[i] != usual[i]) return false;
  }
  return true;
}

// Some permutation of the dimensions is in C order: the numbers lie side by side.
bool isDense(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> order;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) order.emplace_back(strides[i], shape[i]);
  }
  std::sort(order.begin(), order.end());
  std::int64_t expected = 1;
  for (const auto& [stride, size] : order) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

class TorchFinder {
 public:
  explicit TorchFinder(const FileBytes& file) : file_(file) {}

  Result<ModelTensors> find() {
    auto members = readZipDirectory(file_);
    if (!members) return std::move(members).error();
    for (ZipMember& member : *members) {
      const std::size_t slash = member.name.find('/');
      if (slash == std::string::npos) continue;
      std::string name = member.name.substr(slash + 1);
      members_.emplace(std::move(name), std::move(member));
    }
    const auto data = memberBytes("data.pkl");
    if (!data) return data.error();
    if (members_.count("constants.pkl") == 0) {
      return Error(Code::kInvalid,
                   file_.name + ": is no TorchScript module; torch.jit.save writes one");
    }
    auto pickle = readPickle(*data);
    if (!pickle) return std::move(pickle).error();
    pickle_ = *std::move(pickle);
    if (auto walked = walk(pickle_.at(pickle_.top), "", 0); !walked) {
      return std::move(walked).error();
    }
    if (auto read = readExtras(); !read) return std::move(read).error();
    if (auto sound = checkTensors(file_, found_); !sound) return std::move(sound).error();
    return std::move(found_);
  }

 private:
  Error wrong(const std::string& what) const {
    return Error(Code::kInvalid, file_.name + ": " + what);
  }

  Result<FileBytes> memberBytes(const std::string& name) const {
    const auto member = members_.find(name);
    if (member == members_.end()) return wrong(fmt::format("there is no {} in it", name));
    if (member->second.deflated) return wrong(fmt::format("{} is packed", name));
    return packedBytes(file_, member->second);
  }

  // Every tensor that is an attribute of a module, or of a module in it.
  Status walk(const PickleValue& value, const std::string& path, int depth) {
    if (++steps_ > kMostSteps || depth > kMostDepth) return wrong("its modules lead in circles");
    if (value.kind == PickleKind::kCall) {
      const PickleValue& called = pickle_.at(value.items[0]);
      if (called.text == "torch._utils _rebuild_tensor_v2") return addTensor(value, path);
      if (called.text.starts_with("torch._utils ")) {
        return wrong(fmt::format("{}: tensors of the kind {} are not read", path, called.text));
      }
      return {};
    }
    if (value.kind != PickleKind::kObject || value.items.size() < 2) return {};
    const PickleValue& state = pickle_.at(value.items.back());
    if (state.kind != PickleKind::kDict) return {};
    for (std::size_t i = 0; i + 1 < state.items.size(); i += 2) {
      const PickleValue& name = pickle_.at(state.items[i]);
      if (name.kind != PickleKind::kText) continue;
      const std::string below = path.empty() ? name.text : path + "." + name.text;
      auto walked = walk(pickle_.at(state.items[i + 1]), below, depth + 1);
      if (!walked) return walked;
    }
    return {};
  }

  bool readNumbers(const PickleValue& list, std::vector<std::int64_t>& out) const {
    if (list.kind != PickleKind::kList) return false;
    for (const std::size_t item : list.items) {
      if (pickle_.at(item).kind != PickleKind::kInt || pickle_.at(item).number < 0) return false;
      out.push_back(pickle_.at(item).number);
    }
    return true;
  }

  // _rebuild_tensor_v2(storage, offset, shape, strides, …)
  Status addTensor(const PickleValue& call, const std::string& path) {
    const PickleValue& arguments = pickle_.at(call.items[1]);
    const auto odd = [&] { return wrong(path + ": is not described as a tensor is"); };
    if (arguments.kind != PickleKind::kList || arguments.items.size() < 4) return odd();
    const PickleValue& stored = pickle_.at(arguments.items[0]);
    const PickleValue& offset = pickle_.at(arguments.items[1]);
    if (stored.kind != PickleKind::kStored || offset.kind != PickleKind::kInt || offset.number < 0)
      return odd();
    const PickleValue& storage = pickle_.at(stored.items[0]);
    if (storage.kind != PickleKind::kList || storage.items.size() < 5) return odd();
    const auto type = storageType(pickle_.at(storage.items[1]).text);
    if (!type) return wrong(path + ": holds numbers of a type that is not read");
    TensorPlace tensor{.name = path, .key = path, .dtype = *type};
    std::tie(tensor.group, tensor.leaf) = splitDottedName(path);
    std::vector<std::int64_t> strides;
    if (!readNumbers(pickle_.at(arguments.items[2]), tensor.shape) ||
        !readNumbers(pickle_.at(arguments.items[3]), strides) ||
        strides.size() != tensor.shape.size()) {
      return odd();
    }
    const auto bytes = checkedBytes(tensor.dtype, tensor.shape);
    if (!bytes) return odd();
    const std::string member_name = "data/" + pickle_.at(storage.items[2]).text;
    const auto member = memberBytes(member_name);
    if (!member) return member.error();
    const std::size_t width = sizeOf(tensor.dtype);
    const auto skipped = static_cast<std::uint64_t>(offset.number);
    if (skipped > member->size() / width || *bytes > member->size() - skipped * width) {
      return wrong(path + ": is larger than what is stored of it");
    }
    if (!isUsual(tensor.shape, strides)) {
      if (!isDense(tensor.shape, strides)) {
        return wrong(path + ": is a view with holes, which is not read");
      }
      tensor.strides = std::move(strides);
    }
    tensor.offset =
        static_cast<std::uint64_t>(member->bytes.data() - file_.bytes.data()) + skipped * width;
    // Two names of one tensor: what is done to it is done once.
    if (!seen_.emplace(tensor.offset, *bytes).second) return {};
    if (auto summed = addChecksum(member_name, *member); !summed) return summed;
    found_.tensors.push_back(std::move(tensor));
    return {};
  }

  Status addChecksum(const std::string& name, const FileBytes& bytes) {
    if (!summed_.insert(name).second) return {};
    const auto places = checksumPlaces(file_, members_.at(name));
    if (!places) return places.error();
    found_.checksummed.push_back(
        {.offset = static_cast<std::uint64_t>(bytes.bytes.data() - file_.bytes.data()),
         .size = bytes.size(),
         .checksums = *places});
    return {};
  }

  Status readExtras() {
    const std::string folder = "extra/dure/";
    for (const auto& [name, member] : members_) {
      if (!name.starts_with(folder) || member.deflated || member.size > kMostExtra) continue;
      const auto bytes = packedBytes(file_, member);
      if (!bytes) return bytes.error();
      found_.texts[name.substr(folder.size())] = std::string(bytes->text());
    }
    return {};
  }

  const FileBytes& file_;
  std::map<std::string, ZipMember> members_;  // by their names without the archive's
  Pickle pickle_;
  ModelTensors found_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;
  std::set<std::string> summed_;
  std::size_t steps_ = 0;
};

}  // namespace

Result<ModelTensors> findTorchTensors(const FileBytes& file) {
  if (!file.text().starts_with("PK")) {
    return Error(Code::kInvalid, file.name + ": is not a TorchScript file");
  }
  return TorchFinder(file).find();
}

}  // namespace dure::format
