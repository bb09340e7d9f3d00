#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/files.h"

namespace dure::bundle {

// A directory of its own for each test, and other programs to compare with.
class FolderTree : public testing::Test {
 protected:
  FolderTree() : directory_(make()) {}
  ~FolderTree() override { static_cast<void>(removeTree(directory_)); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  // Makes the directories above it, too.
  void write(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
    ASSERT_EQ(chmod(path(name).c_str(), mode), 0);
  }
  std::string content(const std::string& name) const {
    const auto text = readFile(path(name), 1u << 28u);
    return text ? *text : text.error().message();
  }
  // What a shell command prints, run in the directory; it must succeed.
  std::string run(const std::string& command) const {
    FILE* pipe = popen(("cd '" + directory_ + "' && { " + command + "\n}").c_str(), "r");
    std::string output;
    char block[4096];
    while (const std::size_t got = fread(block, 1, sizeof block, pipe)) output.append(block, got);
    EXPECT_EQ(pclose(pipe), 0) << command << "\n" << output;
    return output;
  }
  // All that is below a directory: "-rw-r--r-- content", "l target", "d".
  std::map<std::string, std::string> tree(const std::string& name) const {
    namespace fs = std::filesystem;
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(path(name))) {
      const std::string inside = entry.path().lexically_relative(path(name)).string();
      std::string& about = found[inside];
      if (entry.is_symlink()) {
        about = "l " + fs::read_symlink(entry.path()).string();
      } else if (entry.is_directory()) {
        about = "d";
      } else {
        struct stat info {};
        stat(entry.path().c_str(), &info);
        char mode[8];
        snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(info.st_mode & 07777u));
        about = std::string(mode) + " " + content(name + "/" + inside);
      }
    }
    return found;
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-folder-XXXXXX";
    return mkdtemp(name.data());
  }
  const std::string directory_;
};

}  // namespace dure::bundle
