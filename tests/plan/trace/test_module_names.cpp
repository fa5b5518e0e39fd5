#include <lockstep/plan/graph.h>

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::plan {
namespace {

std::string joined(std::vector<std::string> inputs) {
  return joining_module(inputs, {"blocks", "layer1", "layer2", "layer2.0.downsample"});
}

TEST(ModuleNames, TheOwnerOfAParameterIsWhatStandsBeforeItsLastDot) {
  EXPECT_EQ(owner_of("blocks.0.fc1.weight"), "blocks.0.fc1");
  EXPECT_EQ(owner_of("weight"), "");
}

TEST(ModuleNames, TheCommonModuleIsTheInnermostThatHoldsBoth) {
  EXPECT_EQ(common_module("blocks.0.fc1", "blocks.0.fc2"), "blocks.0");
  EXPECT_EQ(common_module("blocks.0", "blocks.0.fc2"), "blocks.0");
  EXPECT_EQ(common_module("fc1", "fc12"), "");
  EXPECT_EQ(common_module("", "fc"), "");
}

TEST(ModuleNames, AnActivationBelongsToTheLayerItFollows) {
  EXPECT_EQ(joined({"fc1"}), "fc1");
  EXPECT_EQ(joined({}), "");
}

TEST(ModuleNames, QueryTimesKeyBelongsToTheirAttention) {
  EXPECT_EQ(joined({"blocks.0.attention.query", "blocks.0.attention.key"}), "blocks.0.attention");
  EXPECT_EQ(joined({"blocks.0.attention.value", "blocks.0.attention"}), "blocks.0.attention");
}

TEST(ModuleNames, AResidualBelongsToTheBlockThatItEnds) {
  EXPECT_EQ(joined({"position", "blocks.0.attention.output"}), "blocks.0");
  EXPECT_EQ(joined({"blocks.0", "blocks.1.attention.output"}), "blocks.1");
  EXPECT_EQ(joined({"layer2.0.bn2", "layer2.0.downsample.1"}), "layer2.0");
  EXPECT_EQ(joined({"layer1.2", "layer2.0.bn2"}), "layer2.0");
}

}  // namespace
}  // namespace lockstep::plan
