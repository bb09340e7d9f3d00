#include "format/tensor_places.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "format/crc32.h"
#include "format/pickle.h"
#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TensorPlaces : public FormatTest {
 protected:
  static const TensorPlace* find(const ModelTensors& found, const std::string& name) {
    for (const TensorPlace& tensor : found.tensors) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }

  static std::vector<double> numbersAt(const FileBytes& file, const TensorPlace& place) {
    return numbersOf({.dtype = place.dtype,
                      .shape = place.shape,
                      .data = file.bytes.data() + place.offset,
                      .owner = nullptr,
                      .swapped = place.swapped});
  }
};

TEST_F(TensorPlaces, OfTorchScript) {
  const FileBytes file = asFile(golden("torch.pt"), "net.pt");
  const auto found = findTensors(file);
  ASSERT_TRUE(found) << found.error().message();
  const TensorPlace* const weight = find(*found, "fc.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_THAT(weight->shape, ElementsAre(2, 3));
  EXPECT_EQ(weight->group, "fc");
  EXPECT_EQ(weight->leaf, "weight");
  EXPECT_EQ(numbersAt(file, *weight), counting(6));
  EXPECT_EQ(find(*found, "bn.num_batches_tracked")->dtype, DType::kI64);
  // Channels last: its own order of dimensions.
  EXPECT_THAT(find(*found, "last")->strides, ElementsAre(24, 1, 8, 2));
  EXPECT_THAT(numbersAt(file, *find(*found, "part")), ElementsAre(4, 5, 6, 7));
  // Two names of one tensor.
  EXPECT_TRUE((find(*found, "twin") == nullptr) != (find(*found, "fc.bias") == nullptr));
  EXPECT_EQ(found->texts.at("samples"), "7");
  for (const ChecksummedPart& part : found->checksummed) {
    const std::uint32_t sum = crc32Of(file.bytes.subspan(part.offset, part.size));
    for (const std::uint64_t at : part.checksums) {
      EXPECT_EQ(std::memcmp(file.bytes.data() + at, &sum, sizeof sum), 0);
    }
  }
}

TEST_F(TensorPlaces, OfKeras) {
  const auto file = mapFile(goldenPath("keras.h5"));
  const auto found = findTensors(*file);
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_FALSE(found->tensors.empty());
  EXPECT_TRUE(std::is_sorted(found->tensors.begin(), found->tensors.end(),
                             [](const auto& a, const auto& b) { return a.offset < b.offset; }));
  EXPECT_EQ(found->texts.count("model_config"), 1u);
  for (const TensorPlace& tensor : found->tensors) {
    EXPECT_FALSE(tensor.packed) << tensor.name;
    const auto packed = readPacked(*file, tensor);  // the other way to read it
    ASSERT_TRUE(packed) << packed.error().message();
    EXPECT_EQ(numbersOf(*packed), numbersAt(*file, tensor)) << tensor.name;
  }
}

TEST_F(TensorPlaces, OfSafetensors) {
  const FileBytes file = asFile(golden("numbers.safetensors"), "numbers.safetensors");
  const auto found = findTensors(file);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_FALSE(found->tensors.empty());
  for (const TensorPlace& tensor : found->tensors) {
    EXPECT_LE(tensor.offset + tensor.bytes(), file.size());
  }
  EXPECT_THAT(findTensors(asFile("", "model.bin")).error().message(), HasSubstr(".h5"));
}

TEST_F(TensorPlaces, DamageIsRefusedOrHarmless) {
  const std::string sound = golden("torch.pt");
  const auto check = [](const std::string& content) {
    const FileBytes file = asFile(content, "a.pt");
    const auto found = findTorchTensors(file);
    if (!found) return;
    for (const TensorPlace& tensor : found->tensors) numbersAt(file, tensor);
  };
  eachCut(sound, check);
  eachFlip(sound, check);
}

TEST_F(TensorPlaces, PicklesThatLeadInCirclesAreRefused) {
  // An object whose attribute is the object itself.
  const auto pickle =
      readPickle(asFile("\x80\x02"
                        "c__torch__\nM\n)\x81q\x00}X\x01\x00\x00\x00xh\x00sb."));
  EXPECT_FALSE(pickle);  // the zero ends this text: it is cut short
  const std::string circle(
      "\x80\x02"
      "c__torch__\nM\n)\x81q\x00}X\x01\x00\x00\x00xh\x00sb.",
      32);
  const auto read = readPickle(asFile(circle));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->at(read->top).kind, PickleKind::kObject);
  EXPECT_FALSE(
      readPickle(asFile("\x80\x02"
                        "i.")));
  EXPECT_FALSE(readPickle(asFile("R.")));
  EXPECT_FALSE(readPickle(asFile("")));
}

}  // namespace
}  // namespace dure::format
