#include "spec/sync_modes.h"

#include <gtest/gtest.h>

#include "spec/load.h"
#include "spec/print.h"

namespace dure::spec {
namespace {

TEST(SyncModes, EachIsReadAsItIsPrinted) {
  for (const SyncRules& rules : kSyncModes) {
    const Loaded given =
        loadJobText("job.yaml",
                    "name: a\ntrain: {model: mlp, data: /data, sync: " +
                        std::string(rules.word.empty() ? "{every: 3}" : rules.word) + "}\n",
                    {});
    ASSERT_TRUE(given.ok()) << rules.word;
    EXPECT_EQ(given.job.train.sync.mode, rules.mode);
    const Loaded again = loadJobText("job.yaml", printJob(given.job), {});
    ASSERT_TRUE(again.ok()) << printJob(given.job);
    EXPECT_EQ(again.job.train.sync, given.job.train.sync);
  }
}

TEST(SyncModes, NoModeIsNamedByNothing) {
  EXPECT_EQ(syncModeNamed("end"), SyncMode::kEnd);
  EXPECT_FALSE(syncModeNamed(""));
  EXPECT_FALSE(syncModeNamed("never"));
}

}  // namespace
}  // namespace dure::spec
