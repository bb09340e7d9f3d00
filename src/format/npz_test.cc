#include "format/npz.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "format/npy.h"
#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class NpzFiles : public FormatTest {};

// A .npy file with such a header, whatever it means.
std::string npy(const std::string& header, const std::string& data) {
  const auto size = static_cast<std::uint16_t>(header.size());
  return std::string("\x93NUMPY\x01\x00", 8) +
         std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data;
}

void readAllArrays(const std::string& content) {
  const auto npz = Npz::open(asFile(content));
  if (!npz) return;
  for (const std::string& name : npz->names()) {
    if (const auto array = npz->read(name); array) numbersOf(*array);
  }
}

TEST_F(NpzFiles, OfNumpyAreADataSet) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const auto source = openNumpy({.path = goldenPath(name)});
    ASSERT_TRUE(source) << source.error().message();
    ASSERT_TRUE(source->train && source->test);
    EXPECT_THAT(source->train->sampleShape(), ElementsAre(2, 3));
    EXPECT_EQ(source->train->sampleType(), DType::kF32);
    EXPECT_EQ(readEverything(*source->train).samples, counting(30));
    EXPECT_THAT(readEverything(*source->train).labels, ElementsAre(0, 1, 2, 1, 0));
    EXPECT_EQ(readEverything(*source->test).samples, counting(12));
    EXPECT_THAT(readEverything(*source->test).labels, ElementsAre(2, 0));
  }
}

TEST_F(NpzFiles, StoredArraysAreViewsOfTheFile) {
  const FileBytes file = asFile(golden("stored.npz"));
  const auto array = Npz::open(file)->read("x_train");
  ASSERT_TRUE(array);
  EXPECT_GE(array->data, file.bytes.data());
  EXPECT_LT(array->data, file.bytes.data() + file.size());
  EXPECT_EQ(array->owner, file.owner);
}

TEST_F(NpzFiles, EveryTypeIsReadInBothByteOrders) {
  const auto npz = Npz::open(asFile(golden("types.npz")));
  ASSERT_TRUE(npz);
  EXPECT_EQ(npz->names().size(), 24u);
  for (const std::string& name : npz->names()) {
    const auto array = npz->read(name);
    ASSERT_TRUE(array) << name << array.error().message();
    const bool truth = array->dtype == DType::kBool;
    EXPECT_THAT(numbersOf(*array), ElementsAre(0, 1, truth ? 1 : 2, truth ? 1 : 3)) << name;
  }
  EXPECT_EQ(npz->read("big_f2")->dtype, DType::kF16);
  EXPECT_EQ(npz->read("big_u8")->dtype, DType::kU64);
  EXPECT_EQ(npz->read("nothing").error().code(), Code::kNotFound);
}

TEST_F(NpzFiles, WhatIsNoNumbersIsRefusedByName) {
  const auto why = [](const std::string& name) {
    const auto array = readNpy(asFile(golden(name)));
    return array ? "read" : array.error().message();
  };
  EXPECT_THAT(why("fortran.npy"), HasSubstr("Fortran order"));
  EXPECT_THAT(why("objects.npy"), HasSubstr("Python objects"));
  EXPECT_THAT(why("texts.npy"), HasSubstr("texts"));
  EXPECT_THAT(why("records.npy"), HasSubstr("records"));
  EXPECT_THAT(why("complex.npy"), HasSubstr("complex"));
}

TEST_F(NpzFiles, HeadersMayBeWrittenInAnyWayPythonReads) {
  const std::string data(8, '\0');
  EXPECT_TRUE(
      readNpy(asFile(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data))));
  EXPECT_TRUE(readNpy(
      asFile(npy("{\"shape\":(2L,1),\"fortran_order\":False,\"descr\":\"<f4\",}\n", data))));
  EXPECT_TRUE(readNpy(asFile(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}", data))));
  EXPECT_TRUE(readNpy(asFile(npy("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", data))));
  for (const char* header :
       {"", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': Perhaps, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '?f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '', 'fortran_order': False, 'shape': (2,)}"}) {
    EXPECT_FALSE(readNpy(asFile(npy(header, data)))) << header;
  }
}

TEST_F(NpzFiles, CutFilesAreRefused) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    eachCut(golden(name), [](const std::string& cut) {
      const auto npz = Npz::open(asFile(cut));
      ASSERT_FALSE(npz);
      EXPECT_EQ(npz.error().code(), Code::kInvalid);
    });
  }
  eachCut(golden("fortran.npy"),
          [](const std::string& cut) { ASSERT_FALSE(readNpy(asFile(cut))); });
}

TEST_F(NpzFiles, FlippedBitsDoNoHarm) {
  for (const char* name : {"stored.npz", "deflated.npz"}) eachFlip(golden(name), readAllArrays);
}

TEST_F(NpzFiles, DamageInsideADeflatedArrayIsSeen) {
  // Whatever a bit inside the packed data changes, the checksum or the size tells.
  const std::string whole = golden("deflated.npz");
  const auto member = readZipDirectory(asFile(whole))->front();
  const FileBytes file = asFile(whole);
  const auto bytes = packedBytes(file, member)->bytes;
  const auto first = static_cast<std::size_t>(bytes.data() - file.bytes.data());
  for (std::size_t i = first * 8; i < (first + bytes.size()) * 8; ++i) {
    std::string damaged = whole;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ static_cast<char>(1u << (i % 8)));
    const auto array = Npz::open(asFile(damaged))->read("x_train");
    // Bits that fill the last byte mean nothing.
    if (array) {
      EXPECT_EQ(numbersOf(*array), counting(30));
    }
  }
}

TEST_F(NpzFiles, AFileWithOneSplitIsForTraining) {
  // x and y, as the names of a directory's files.
  write("x.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", "abcdef"));
  write("y.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1)}", "\x01\x02"));
  const auto source = openNumpy({.path = directory()});
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_THAT(readEverything(*source->train).labels, ElementsAre(1, 2));
  EXPECT_FALSE(source->test);
}

TEST_F(NpzFiles, NamesMayBeChosen) {
  const std::string numbers = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "ab");
  for (const char* name :
       {"left_mine.npy", "right_mine.npy", "left_known.npy", "right_known.npy"}) {
    write(name, numbers);
  }
  const auto source = openNumpy({.path = directory(),
                                 .train = "left",
                                 .test = "right",
                                 .samples = "mine",
                                 .labels = "known"});
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_TRUE(source->train && source->test);
  const auto none = openNumpy({.path = directory()});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), AllOf(HasSubstr("x_train"), HasSubstr("left_known")));
}

TEST_F(NpzFiles, AreFoundInADirectory) {
  write("0.npz", golden("stored.npz"));
  write("other.npz", "not a zip file");
  EXPECT_TRUE(openNumpy({.path = directory()}));
}

TEST_F(NpzFiles, DifferentNumbersOfSamplesAndLabelsAreRefused) {
  write("x.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abc"));
  write("y.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "ab"));
  const auto source = openNumpy({.path = directory()});
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message(), HasSubstr("has 3 samples but"));
  write("y.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2)}", "abcdef"));
  EXPECT_THAT(openNumpy({.path = directory()}).error().message(),
              HasSubstr("not one number per sample"));
}

}  // namespace
}  // namespace dure::format
