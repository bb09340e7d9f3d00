#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/array.h"
#include "format/mapped_file.h"
#include "format/safetensors.h"

// Where the tensors of a model file lie, for whoever reads them one at a time, or writes a file
// that differs from this one in nothing but them.
namespace dure::format {

struct TensorPlace {
  std::string name;   // for people: "dense/kernel", "dense.weight"
  std::string key;    // unique in the file, and the same in files of the same model
  std::string group;  // of its layer: tensors with the same one belong together
  std::string leaf;   // its name in the layer: "kernel", "running_var"
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // where they are not those of C order; else empty
  std::uint64_t offset = 0;           // of its first byte in the file
  bool swapped = false;               // the numbers are in the other byte order
  bool packed = false;                // not in one piece: readPacked and rewritePacked get at it

  std::uint64_t bytes() const;
  std::int64_t elements() const;
};

// A part of the file that has a checksum in it: the places of that.
struct ChecksummedPart {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::array<std::uint64_t, 2> checksums{};
};

struct ModelTensors {
  std::vector<TensorPlace> tensors;  // in the order of the file, those that are packed first
  std::map<std::string, std::string> texts;  // what the file says of the model, by name
  std::vector<ChecksummedPart> checksummed;  // CRC-32s; none in most formats
};

// All of them look at everything that is written in the file before they believe it: every tensor
// lies within it, and no two of them share a byte.

// An .h5 file as Keras writes it, with or without an architecture: what is below model_weights, or
// else everything but the optimizer's state. The texts are some attributes: model_config,
// class_names, samples, … The file is read in a process of its own, as by readKeras.
Result<ModelTensors> findKerasTensors(const FileBytes& file);
// A .safetensors file; the texts are its metadata.
Result<ModelTensors> findSafetensorsTensors(const FileBytes& file);
// A .pt file of TorchScript: parameters and buffers by their dotted names. The texts are the extra
// files below dure/. What torch.save wrote of a dictionary is not read.
Result<ModelTensors> findTorchTensors(const FileBytes& file);

// By the ending of the file's name: .h5, .safetensors, .pt. Invalid for others.
Result<ModelTensors> findTensors(const FileBytes& file);

// A packed tensor of an .h5 file.
Result<Array> readPacked(const FileBytes& file, const TensorPlace& place);
// Replaces the numbers of packed tensors, by their keys, in the .h5 file at `path`.
Status rewritePacked(const std::string& path, const NamedArrays& numbers);

// "block.dense.weight" is "weight" of "block.dense".
std::pair<std::string, std::string> splitDottedName(const std::string& name);
// Sorts the tensors and checks where they lie; for the functions above.
Status checkTensors(const FileBytes& file, ModelTensors& found);

}  // namespace dure::format
