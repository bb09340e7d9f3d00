#include <gmock/gmock.h>
#include <sys/mount.h>

#include "bundle/folder.h"
#include "bundle/test_folder.h"

namespace dure::bundle {
namespace {

using testing::HasSubstr;

// Python's tarfile writes what a tar archive can say, sane or not.
constexpr const char* kPython = R"(
import io, sys, tarfile
tar = tarfile.open("made.tar.gz", "w:gz", format=tarfile.USTAR_FORMAT)
def add(name, type=tarfile.REGTYPE, data=b"", link="", mode=0o644, **more):
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.linkname, entry.mode = type, len(data), link, mode
    for key, value in more.items(): setattr(entry, key, value)
    tar.addfile(entry, io.BytesIO(data))
)";

class FolderUnpacked : public FolderTree {
 protected:
  // The archive that these lines of Python make.
  std::string made(const std::string& lines) const {
    write("make.py", kPython + lines + "\ntar.close()\n");
    run("/usr/bin/python3 make.py 2>&1");
    return content("made.tar.gz");
  }
  std::string unpack(const std::string& archive, const UnpackLimits& limits = {}) const {
    const Status unpacked = unpackFolder(archive, path("out"), limits);
    return unpacked ? "" : unpacked.error().message();
  }
};

TEST_F(FolderUnpacked, ReadsWhatGnuTarAndPythonWrite) {
  write("in/a", "1");
  write("in/sub/run", "2", 0755);
  write("in/" + std::string(80, 'd') + "/" + std::string(90, 'f'), "with a prefix");
  write("in/\xC3\xA4", std::string(2000, 'x'));
  std::filesystem::create_symlink("a", path("in/link"));
  const auto expected = tree("in");
  const std::string python =
      "/usr/bin/python3 -c 'import tarfile\nwith tarfile.open(\"t\", \"w:gz\", format=tarfile.%) "
      "as t:"
      " t.add(\"in\", \".\")'";
  for (const std::string& command : {
           std::string("tar -czf t --format=ustar -C in ."),
           std::string("tar -czf t --format=posix -C in ."),
           std::string("tar -cf - --format=posix -C in $(ls in) | gzip -9 > t"),
           std::string(python).replace(python.find('%'), 1, "PAX_FORMAT"),
           std::string(python).replace(python.find('%'), 1, "USTAR_FORMAT"),
       }) {
    run(command + " 2>&1");
    EXPECT_EQ(unpack(content("t")), "") << command;
    EXPECT_EQ(tree("out"), expected) << command;
    ASSERT_TRUE(removeTree(path("out")));
  }
}

TEST_F(FolderUnpacked, ModesAreTheTwoThatThereAre) {
  EXPECT_EQ(unpack(made("add('a', mode=0o6777); add('b', mode=0o4444); add('c', mode=0o010);"
                        "add('d', tarfile.DIRTYPE, mode=0)")),
            "");
  EXPECT_EQ(run("stat -c '%n %a %u' out/*"), "out/a 755 " + std::to_string(geteuid()) +
                                                 "\nout/b 644 " + std::to_string(geteuid()) +
                                                 "\nout/c 644 " + std::to_string(geteuid()) +
                                                 "\nout/d 755 " + std::to_string(geteuid()) + "\n");
}

TEST_F(FolderUnpacked, NothingOutsideIsTouched) {
  struct Case {
    const char* lines;
    const char* why;
  };
  const Case cases[] = {
      {"add('/outside/new', data=b'x')", "is absolute"},
      {"add('../outside/new', data=b'x')", "leads out of the folder"},
      {"add('a/../../outside/new', data=b'x')", "leads out of the folder"},
      {"add('..', tarfile.DIRTYPE)", "leads out of the folder"},
      {"add('../outside/new', tarfile.SYMTYPE, link='x')", "leads out of the folder"},
      {"add('l', tarfile.SYMTYPE, link='../outside'); add('l/m', tarfile.SYMTYPE, link='x')",
       "is in the way and no directory"},
      {"add('l', tarfile.SYMTYPE, link='../outside/old'); add('l', tarfile.LNKTYPE, link='old')",
       "neither file, link nor directory"},
      {"add('h', tarfile.LNKTYPE, link='../outside/old')", "neither file, link nor directory"},
      {"add('c', tarfile.CHRTYPE, devmajor=1, devminor=3)", "neither file, link nor directory"},
      {"add('p', tarfile.FIFOTYPE)", "neither file, link nor directory"},
      {"add('f', data=b'x'); add('f/g', data=b'x')", "is in the way and no directory"},
      {"add('d', tarfile.DIRTYPE); add('d', data=b'x')", "Is a directory"},
      {"add('')", "an entry has no name"},
      {"add('.')", "an entry has no name"},
      {"add('a', tarfile.SYMTYPE, link='')", "link a"},
      {"add('/'.join(['a'] * 120), tarfile.DIRTYPE)", "is too deep"},
      {"tar.close(); tar = tarfile.open('made.tar.gz', 'w:gz', format=tarfile.GNU_FORMAT);"
       "add('n' * 200)",
       "not a ustar archive"},
      {"tar.close(); tar = tarfile.open('made.tar.gz', 'w:gz', format=tarfile.PAX_FORMAT);"
       "add('a', data=b'x', pax_headers={'path': '/outside/new'})",
       "is absolute"},
      {"tar.close(); tar = tarfile.open('made.tar.gz', 'w:gz', format=tarfile.PAX_FORMAT);"
       "add('a', data=b'x', pax_headers={'size': '-5'})",
       "a pax header is damaged"},
  };
  write("outside/old", "old");
  for (const Case& each : cases) {
    EXPECT_THAT(unpack(made(each.lines)), HasSubstr(each.why)) << each.lines;
    EXPECT_EQ(run("find outside | sort; cat outside/old"), "outside\noutside/old\nold")
        << each.lines;
    ASSERT_TRUE(removeTree(path("out")));
  }
}

TEST_F(FolderUnpacked, NothingIsWrittenThroughALink) {
  write("outside/old", "old");
  // A file "through" a link that the archive itself has: the link comes last, and finds a
  // directory.
  EXPECT_THAT(unpack(made("add('l', tarfile.SYMTYPE, link='../outside'); add('l/new', data=b'x')")),
              HasSubstr("Is a directory"));
  // Links that were there before.
  ASSERT_TRUE(removeTree(path("out")));
  std::filesystem::create_directories(path("out"));
  std::filesystem::create_symlink("../outside", path("out/d"));
  std::filesystem::create_symlink("../outside/old", path("out/f"));
  EXPECT_THAT(unpack(made("add('d/new', data=b'x')")), HasSubstr("'d' is in the way"));
  EXPECT_EQ(unpack(made("add('f', data=b'x')")), "");
  EXPECT_EQ(tree("out")["f"], "0644 x") << "the link is replaced";
  EXPECT_EQ(run("find outside | sort; cat outside/old"), "outside\noutside/old\nold");
}

TEST_F(FolderUnpacked, ADamagedArchiveIsRefusedOrHarmless) {
  write("in/a", "some text, some text");
  write("in/b/c", "other text");
  const auto whole = packFolder(path("in"));
  ASSERT_TRUE(whole);
  const auto expected = tree("in");
  for (std::size_t size = 0; size < whole->archive.size(); ++size) {
    EXPECT_NE(unpack(whole->archive.substr(0, size)), "") << "cut to " << size;
  }
  for (std::size_t bit = 0; bit < 8 * whole->archive.size(); ++bit) {
    std::string flipped = whole->archive;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_TRUE(removeTree(path("out")));
    // In gzip's header are times and flags that change nothing.
    if (unpack(flipped).empty()) {
      EXPECT_EQ(tree("out"), expected) << "bit " << bit;
    }
  }
  EXPECT_THAT(unpack(whole->archive + "x"), HasSubstr("there is more after its end"));
  EXPECT_THAT(unpack("no archive"), HasSubstr("unpack the folder of the programs: the compressed"));
  run("printf 'cut off' | gzip > t");
  EXPECT_THAT(unpack(content("t")), HasSubstr("it ends too early"));
  run("tar -cf - --format=ustar -C in a | head -c 1024 | gzip > t");
  EXPECT_THAT(unpack(content("t")), HasSubstr("it ends too early")) << "without the end's blocks";
}

TEST_F(FolderUnpacked, ABombIsStopped) {
  const std::string bomb = made("add('zeros', data=bytes(200_000_000))");
  EXPECT_LT(bomb.size(), 1'000'000u);
  EXPECT_THAT(unpack(bomb, {.bytes = 1'000'000}),
              HasSubstr("it unpacks to more than 1000000 bytes"));
  EXPECT_LE(std::filesystem::file_size(path("out/zeros")), 1'000'000u);
  // Directories are counted even where they are only part of a path.
  const std::string many =
      made("for i in range(3): add(f'{i}/' + '/'.join(['a'] * 40), data=b'x')");
  EXPECT_EQ(unpack(many, {.entries = 3 * 41}), "");
  ASSERT_TRUE(removeTree(path("out")));
  EXPECT_THAT(unpack(many, {.entries = 100}), HasSubstr("it has more than 100 entries"));
  EXPECT_THAT(unpack(made("for i in range(9): add('a')"), {.entries = 8}),
              HasSubstr("it has more than 8 entries"));
}

TEST_F(FolderUnpacked, AFullDiskIsSaid) {
  std::filesystem::create_directories(path("out"));
  if (mount("none", path("out").c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "a full disk needs the right to mount a small one";
  }
  struct Unmount {
    std::string at;
    ~Unmount() { umount2(at.c_str(), MNT_DETACH); }
  } const unmount{path("out")};
  EXPECT_THAT(unpack(made("add('large', data=bytes(1_000_000))")),
              HasSubstr("write large: write: No space left on device"));
}

}  // namespace
}  // namespace dure::bundle
