#include "bundle/folder.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/fd.h"
#include "base/sha256.h"
#include "bundle/test_folder.h"

namespace dure::bundle {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

class FolderPacked : public FolderTree {
 protected:
  Folder pack(const std::string& name) const {
    auto folder = packFolder(path(name));
    EXPECT_TRUE(folder) << folder.error().message();
    return folder ? std::move(*folder) : Folder();
  }
  Error refusal(const std::string& name, const FolderOptions& options = {}) const {
    const auto folder = packFolder(path(name), options);
    return folder ? Error(Code::kIo, "it was packed") : folder.error();
  }
  std::string randomBytes(std::size_t size) const {
    std::mt19937_64 random(1);
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    return bytes;
  }
  // All that can be in a folder.
  void makeEverything(const std::string& in) const {
    write(in + "/train.py", "print(1)\n");
    write(in + "/run.sh", "#!/bin/sh\n", 0755);
    write(in + "/lib/secret", "s", 0600);
    write(in + "/lib/empty", "");
    write(in + "/" + std::string(90, 'd') + "/" + std::string(120, 'f'), "long");
    write(in + "/gr\xC3\xBC\xC3\x9F"
               "e/\xE4\xB8\xAD.txt",
          "umlaut");
    write(in + "/block", std::string(512, 'b'));
    write(in + "/large", randomBytes(700'000));
    std::filesystem::create_directories(path(in + "/nothing/inside"));
    std::filesystem::create_symlink("train.py", path(in + "/link"));
    std::filesystem::create_symlink("/somewhere/else", path(in + "/outside"));
    std::filesystem::create_symlink(std::string(150, 't'), path(in + "/lib/long-link"));
  }
};

TEST_F(FolderPacked, ComesOutAsItWentIn) {
  makeEverything("in");
  const Folder folder = pack("in");
  EXPECT_EQ(folder.files, 11);
  EXPECT_EQ(folder.bytes, 9 + 10 + 1 + 4 + 6 + 512 + 700'000);
  EXPECT_EQ(folder.sha256, sha256Hex(folder.archive));
  const Status unpacked = unpackFolder(folder.archive, path("new/out"));
  ASSERT_TRUE(unpacked) << unpacked.error().message();
  auto expected = tree("in");
  expected["lib/secret"] = "0644 s";
  EXPECT_EQ(tree("new/out"), expected);
  EXPECT_TRUE(unpackFolder(folder.archive, path("new/out"))) << "over itself, too";
  EXPECT_EQ(tree("new/out"), expected);
}

TEST_F(FolderPacked, IsWhatGnuTarAndPythonRead) {
  makeEverything("in");
  write("folder.tar.gz", pack("in").archive);
  auto expected = tree("in");
  expected["lib/secret"] = "0644 s";
  run("mkdir tar python && tar -xzf folder.tar.gz -C tar 2>&1");
  EXPECT_EQ(tree("tar"), expected);
  run("/usr/bin/python3 -c 'import tarfile; "
      "tarfile.open(\"folder.tar.gz\").extractall(\"python\")'");
  EXPECT_EQ(tree("python"), expected);
  EXPECT_THAT(run("TZ=UTC tar -tvzf folder.tar.gz run.sh train.py lib/"),
              AllOf(HasSubstr("-rwxr-xr-x 0/0              10 1970-01-01 00:00 run.sh"),
                    HasSubstr("-rw-r--r-- 0/0               9 1970-01-01 00:00 train.py"),
                    HasSubstr("drwxr-xr-x 0/0               0 1970-01-01 00:00 lib/")));
  // Only the two long or foreign names and the long link, with the directory of one, need more than
  // ustar.
  EXPECT_EQ(run("gzip -dc folder.tar.gz | grep -a -c '@PaxHeader'"), "4\n");
}

TEST_F(FolderPacked, TheSameContentIsTheSameArchive) {
  makeEverything("in");
  const std::string first = pack("in").archive;
  // Copied in another order, with other times and modes.
  run("mkdir copy; cd in; umask 077; find . -type d -printf '%p\\n' | sort -r | while read -r d; "
      "do mkdir -p ../copy/\"$d\"; done;"
      "find . ! -type d -printf '%p\\n' | sort -r | while read -r f; do cp -P --preserve=links "
      "\"$f\" ../copy/\"$f\"; done;"
      "touch -d 1999-01-01 ../copy/train.py");
  EXPECT_EQ(pack("copy").archive, first);
  write("copy/train.py", "print(2)\n");
  EXPECT_NE(pack("copy").archive, first);
}

TEST_F(FolderPacked, WhatIsIgnoredOrNoFileStaysHere) {
  write("in/.dureignore", "*.log\n/data/\n!keep.log\n");
  write("in/data/big", "x");
  write("in/src/data/small", "x");
  write("in/a.log", "x");
  write("in/keep.log", "x");
  write("in/.git/config", "x");
  write("in/module/.git", "gitdir: elsewhere");
  write("in/module/.gitignore", "*");
  ASSERT_EQ(mkfifo(path("in/pipe").c_str(), 0600), 0);
  const Fd server(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path("in/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_TRUE(unpackFolder(pack("in").archive, path("out")));
  EXPECT_EQ(run("cd out; find . -type f | sort"),
            "./.dureignore\n./keep.log\n./module/.gitignore\n./src/data/small\n");
}

TEST_F(FolderPacked, AnEmptyFolderIsAFolder) {
  std::filesystem::create_directories(path("in"));
  const Folder folder = pack("in");
  EXPECT_EQ(folder.files, 0);
  ASSERT_TRUE(unpackFolder(folder.archive, path("out")));
  EXPECT_TRUE(tree("out").empty());
  EXPECT_THAT(refusal("nowhere").message(), EndsWith("nowhere: No such file or directory"));
}

TEST_F(FolderPacked, TooLargeIsSaidInOneSentence) {
  write("in/checkpoints/old/model.pt", std::string(3'000'000, 'm'));
  write("in/checkpoints/notes", "x");
  for (const char* name : {"a", "b", "c"})
    write(std::string("in/data/") + name, std::string(500'000, 'd'));
  write("in/big.csv", std::string(900'000, 'c'));
  write("in/train.py", "x");
  const Error error = refusal("in", {.limit = 2'000'000});
  EXPECT_EQ(error.code(), Code::kInvalid);
  EXPECT_THAT(
      error.message(),
      EndsWith(
          "in has 5.4 MB to send, more than the limit of 2.0 MB; the largest are "
          "checkpoints/old/model.pt (3.0 MB), data/ (1.5 MB), big.csv (900.0 kB): name them in "
          ".dureignore, or raise program.ship_limit, or put large data on a volume"));
  write("in/.dureignore", "checkpoints\n");
  EXPECT_FALSE(packFolder(path("in"), {.limit = 2'000'000}));
  write("in/.dureignore", "checkpoints\ndata/a\n");
  EXPECT_TRUE(packFolder(path("in"), {.limit = 2'000'000}));
}

TEST_F(FolderPacked, TooManyOrTooDeepIsRefused) {
  std::string deep = "in";
  for (int i = 0; i < kFolderDepth + 1; ++i) deep += "/d";
  std::filesystem::create_directories(path(deep));
  EXPECT_THAT(refusal("in").message(), HasSubstr("more than 100 directories deep"));
  write("in/.dureignore", "/d\n/many\n");
  EXPECT_TRUE(packFolder(path("in")));
  for (int i = 0; i < 10; ++i) write("in/many/" + std::to_string(i), "");
  EXPECT_TRUE(packFolder(path("in"), {.entries = 1})) << "what is ignored is not counted";
  write("in/.dureignore", "/d\n");
  const Folder folder = pack("in");
  EXPECT_TRUE(packFolder(path("in"), {.entries = 12}));
  EXPECT_TRUE(unpackFolder(folder.archive, path("out"), {.entries = 12})) << "both count alike";
  EXPECT_THAT(refusal("in", {.entries = 11}).message(),
              HasSubstr("more than 11 files: name those"));
}

TEST_F(FolderPacked, AFileThatChangesMeanwhileIsNamed) {
  write("in/growing", randomBytes(8'000'000));
  write("in/replaced", "x");
  write("in/.dureignore", "replaced");
  const auto whileSomebody = [&](const std::function<void()>& act) {
    std::atomic<bool> done = false;
    std::jthread other([&] {
      while (!done) act();
    });
    const Error error = refusal("in");
    done = true;
    return error;
  };
  const Error grown =
      whileSomebody([&] { std::ofstream(path("in/growing"), std::ios::app) << "x"; });
  EXPECT_EQ(grown.code(), Code::kConflict);
  EXPECT_THAT(grown.message(), HasSubstr("'growing' changed while it was being packed"));

  write("in/.dureignore", "");
  const Error replaced = whileSomebody([&] {
    write("new", "y");
    std::filesystem::rename(path("new"), path("in/replaced"));
  });
  EXPECT_EQ(replaced.code(), Code::kConflict);
  EXPECT_THAT(replaced.message(), HasSubstr("'replaced' changed while it was being packed"));
}

TEST_F(FolderPacked, AFileThatMayNotBeReadIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  write("in/secret", "x", 0000);
  EXPECT_THAT(refusal("in").message(), HasSubstr("secret: Permission denied"));
}

}  // namespace
}  // namespace dure::bundle
