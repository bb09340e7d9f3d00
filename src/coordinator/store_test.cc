#include "coordinator/store.h"

#include <gtest/gtest.h>

namespace dure::coordinator {
namespace {

TEST(RendezvousStore, AKeyIsThereOnceSomebodyPutIt) {
  RendezvousStore store;
  EXPECT_EQ(store.handle("GET", "/global/0", "").status, 404);
  EXPECT_EQ(store.handle("PUT", "/global/0", "address").status, 200);
  EXPECT_EQ(store.handle("GET", "/global/0", "").body, "address");
}

TEST(RendezvousStore, AScopeIsDroppedWhenEveryRankHasDoneWithIt) {
  RendezvousStore store;
  store.setWorld(2);
  store.handle("PUT", "/global/0", "a");
  store.handle("PUT", "/globally/0", "b");
  store.handle("DELETE", "/global/0", "");
  store.handle("DELETE", "/global/0", "");
  EXPECT_EQ(store.handle("GET", "/global/0", "").status, 200);
  store.handle("DELETE", "/global/1", "");
  EXPECT_EQ(store.handle("GET", "/global/0", "").status, 404);
  EXPECT_EQ(store.handle("GET", "/globally/0", "").status, 200);
}

TEST(RendezvousStore, TheNextGenerationFindsNothingOfTheLast) {
  RendezvousStore store;
  store.handle("PUT", "/global/0", "old");
  store.reset({{"rank_and_size/worker-0:0", "0,1,0,1,0,1"}});
  EXPECT_EQ(store.handle("GET", "/global/0", "").status, 404);
  EXPECT_EQ(store.handle("GET", "/rank_and_size/worker-0:0", "").body, "0,1,0,1,0,1");
}

TEST(RendezvousStore, StrangePathsAndMethodsAreRefused) {
  RendezvousStore store;
  for (const char* path : {"", "/", "/scope", "/scope/", "scope/key"}) {
    EXPECT_EQ(store.handle("GET", path, "").status, 400) << path;
  }
  EXPECT_EQ(store.handle("POST", "/a/b", "").status, 405);
}

}  // namespace
}  // namespace dure::coordinator
