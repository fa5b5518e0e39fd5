#include <gtest/gtest.h>
#include <lockstep/base/nearest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

const std::vector<std::string> kKeys = {"name", "lr", "momentum", "weight_decay", "nesterov", "batch_size", "epochs"};

TEST(Nearest, FindsWhatSlippedFingersMeant) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"nmae", "name"},
                                                                  {"lrr", "lr"},
                                                                  {"l", ""},
                                                                  {"momentm", "momentum"},
                                                                  {"momemtum", "momentum"},
                                                                  {"weight-decay", "weight_decay"},
                                                                  {"Weight_Decay", "weight_decay"},
                                                                  {"wieght_decay", "weight_decay"},
                                                                  {"batchsize", "batch_size"},
                                                                  {"epoch", "epochs"},
                                                                  {"EPOCHS", "epochs"},
                                                                  {"lr", "lr"}};
  for (const auto& [wrong, meant] : cases) EXPECT_EQ(nearest(wrong, kKeys).value_or(""), meant) << wrong;
}

TEST(Nearest, SaysNothingWhenAllAreFar) {
  for (const auto* wrong : {"", "x", "learning_rate", "optimizer", "zzzzzzzz", "ab"}) {
    EXPECT_EQ(nearest(wrong, kKeys), std::nullopt) << wrong;
  }
  EXPECT_EQ(nearest("name", {}), std::nullopt);
  EXPECT_EQ(nearest(std::string(100000, 'a'), kKeys), std::nullopt);
}

TEST(Nearest, TakesTheFirstOfEquallyNearOnes) {
  const std::vector<std::string> keys = {"abcx", "abcy"};
  EXPECT_EQ(nearest("abcz", keys), "abcx");
}

TEST(Nearest, MakesTheEndOfAMessage) {
  EXPECT_EQ(did_you_mean("epoch", kKeys), "; did you mean 'epochs'?");
  EXPECT_EQ(did_you_mean("optimizer", kKeys), "");
  EXPECT_EQ(did_you_mean("epoch", kKeys, "known are a, b"), "; did you mean 'epochs'? Known are a, b");
  EXPECT_EQ(did_you_mean("optimizer", kKeys, "known are a, b"), "; known are a, b");
}

}  // namespace
}  // namespace lockstep
