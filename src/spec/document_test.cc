#include "spec/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "spec/catalog.h"
#include "spec/load.h"

namespace dure::spec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(DocumentTest, ThePageInDocsIsTheGeneratedOne) {
  const auto text = readFile(DURE_DOCS "/job-file.md", 1u << 20);
  ASSERT_TRUE(text) << text.error().message();
  if (*text == jobDocumentation()) return;
  const fs::path generated = fs::path(testing::TempDir()) / "job-file.md";
  ASSERT_TRUE(replaceFile(generated.string(), jobDocumentation()));
  FAIL() << "docs/job-file.md is old; the new one is " << generated;
}

TEST(DocumentTest, EveryFieldHasARow) {
  const std::string page = jobDocumentation();
  for (const FieldEntry& entry : fieldCatalog()) {
    if (entry.path.empty()) continue;
    const std::string leaf = entry.path.substr(entry.path.rfind('.') + 1);
    EXPECT_THAT(page, HasSubstr(leaf + "`")) << entry.path;
    EXPECT_THAT(page, HasSubstr(entry.doc)) << entry.path;
  }
}

TEST(DocumentTest, TheExamplesAreJobs) {
  const std::string page = jobDocumentation();
  const std::string begin = "```yaml\n";
  int examples = 0;
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    const std::size_t from = at + begin.size();
    const Loaded loaded =
        loadJobText("job.yaml", page.substr(from, page.find("```", from) - from), {});
    for (const Problem& problem : loaded.problems) ADD_FAILURE() << problem.text();
    ++examples;
  }
  EXPECT_EQ(examples, 2);
}

TEST(CatalogTest, ListsThePathsThatCanBeSet) {
  const std::vector<std::string> paths = jobFieldPaths();
  EXPECT_THAT(paths, testing::IsSupersetOf({"name", "workers", "workers.max", "roles.worker", "env",
                                            "train.optimizer.lr", "train.sync.every", "volumes"}));
  EXPECT_THAT(paths, testing::Not(testing::Contains("volumes.path")));
  EXPECT_THAT(paths, testing::Not(testing::Contains("")));
}

// The example of each field is one that the field takes.
TEST(CatalogTest, ExamplesAreAccepted) {
  for (const FieldEntry& entry : fieldCatalog()) {
    if (entry.example.empty() || entry.in_list) continue;
    const Override example{"--set " + entry.path, entry.path, entry.example};
    const Loaded loaded = loadJobOverrides({example});
    for (const Problem& problem : loaded.problems) {
      // What else the job lacks is not the example's fault.
      const bool lacking = problem.message.starts_with("is missing");
      EXPECT_TRUE(lacking || problem.file != example.origin) << problem.text();
    }
  }
}

}  // namespace
}  // namespace dure::spec
