// Weights from files of torch.save and under other names. pth/write_files.py says what is in the files.
#include "base/expect_error.h"
#include "support/read_file.h"
#include "train/small_network.h"

#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/configuration/config_keys.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/pth/load.h>
#include <lockstep/train/weights/safetensors.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <functional>

namespace lockstep::train {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::filesystem::path pth(const std::string& name) { return std::filesystem::path(LOCKSTEP_PTH_FILES) / name; }

/// Tensor number i of a small network counts from 10 i.
TensorMap expected_state() {
  TensorMap state;
  int tens = 0;
  for (const auto* name : {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}) {
    state.emplace(name, torch::arange(std::string_view(name) == "0.weight" ? 6 : 2, torch::kFloat) + tens);
    tens += 10;
  }
  state["0.weight"] = state["0.weight"].reshape({2, 3});
  state["1.num_batches_tracked"] = torch::tensor(60);
  return state;
}

void expect_equal(const TensorMap& actual, const TensorMap& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_EQ(actual.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(actual.at(name).equal(tensor)) << name << "\n" << actual.at(name);
  }
}

TEST(PthTensors, EveryDtypeAndViewHasItsValues) {
  const auto base = torch::arange(20, torch::kFloat).reshape({4, 5});
  TensorMap expected = {
      {"whole", base},
      {"transposed part", base.t().slice(0, 1, 3)},
      {"every other", base.view(-1).slice(0, 3, 20, 2)},
      {"expanded", torch::full({2, 3}, 7.0F)},
      {"scalar", torch::tensor(7, torch::kLong)},
      {"scalar in the middle", torch::tensor(12.0F)},
      {"empty", torch::empty({2, 0, 3})},
      {"empty at the end", torch::empty({0, 5})},
      {"parameter", base[0]},
      {"channels_last", torch::arange(24, torch::kFloat).reshape({1, 2, 3, 4})},
  };
  const std::map<std::string, at::ScalarType> dtypes = {
      {"float64", at::kDouble}, {"float32", at::kFloat}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16},
      {"int64", at::kLong},     {"int32", at::kInt},     {"int16", at::kShort},  {"int8", at::kChar},
      {"uint8", at::kByte},     {"bool", at::kBool}};
  for (const auto& [name, dtype] : dtypes) {
    expected.emplace(name, torch::tensor({{0, 1, 1}, {0, 100, 3}}).to(dtype));
  }
  const auto file = load_pth(pth("views.pth"));
  expect_equal(file.tensors, expected);
  EXPECT_TRUE(file.tensors.at("whole").is_alias_of(file.tensors.at("every other"))) << "their storage is read once";
}

TEST(PthTensors, AFileThatCannotBeReadIsAnIoError) {
  EXPECT_THAT(test::message_of(ErrorKind::io, [] { load_pth("nowhere.pth"); }), HasSubstr("nowhere.pth"));
  EXPECT_THAT(test::message_of(ErrorKind::io, [] { load_pth(pth("")); }), HasSubstr("cannot read"));
}

TEST(Weights, AreReadFromFilesOfTorchSave) {
  auto plain = test::small_network();
  EXPECT_THAT(load_weights(*plain, pth("plain.pth")), IsEmpty());
  expect_equal(test::state_of(*plain), expected_state());
  EXPECT_TRUE(plain->parameters()[0].requires_grad());

  auto from_checkpoint = test::small_network();
  EXPECT_THAT(load_weights(*from_checkpoint, pth("checkpoint.pth")),
              ElementsAre("the weights are those under \"state_dict\" in the file"));
  expect_equal(test::state_of(*from_checkpoint), expected_state());

  auto parallel = test::small_network();
  load_weights(*parallel, pth("parallel.pth"), {.prefix = "module."});
  expect_equal(test::state_of(*parallel), expected_state());

  auto mixed = test::small_network();
  EXPECT_THAT(load_weights(*mixed, pth("mixed.pth")), ElementsAre("left out, as they are not tensors (1): epoch"));
}

TEST(Weights, FilesOfTorchSaveThatCannotBeReadSayWhatToDo) {
  auto module = test::small_network();
  const auto refused = [&](const std::string& name) {
    return test::message_of(ErrorKind::data, [&] { load_weights(*module, pth(name)); });
  };
  EXPECT_THAT(refused("old.pth"), AllOf(HasSubstr("before PyTorch 1.6"), HasSubstr("weights_only=True")));
  EXPECT_THAT(refused("system.pth"), AllOf(HasSubstr("posix.system"), HasSubstr("system.pth")));
  EXPECT_THAT(refused("parallel.pth"), HasSubstr("set model.weights_prefix=module."));
  const TemporaryFolder folder;
  torch::save(torch::ones({3}), (folder.path() / "cpp.pt").string());
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(*module, folder.path() / "cpp.pt"); }),
              HasSubstr("TorchScript"));
}

// ---- names

TEST(WeightNames, BeginningsAndPatterns) {
  const auto name = [](std::string_view from, std::string_view to, std::string_view text) {
    return renamed(text, {std::string(from), std::string(to)}).value_or("-");
  };
  EXPECT_EQ(name("body.", "", "body.fc.weight"), "fc.weight");
  EXPECT_EQ(name("body.", "trunk.", "body.body.weight"), "trunk.body.weight");
  EXPECT_EQ(name("body.", "", "head.body.weight"), "-");
  EXPECT_EQ(name("*.gamma", "*.weight", "bn.1.gamma"), "bn.1.weight");
  EXPECT_EQ(name("*.gamma", "*.weight", "bn.1.gamma.x"), "-");
  EXPECT_EQ(name("layers.*.conv.*", "layer*.0.conv.*", "layers.2.conv.conv.weight"), "layer2.0.conv.conv.weight");
  EXPECT_EQ(name("*", "net.*", "fc.bias"), "net.fc.bias");
  EXPECT_EQ(name("a*b*", "*", "axxbyyb"), "xx");
  EXPECT_EQ(name("*.*.weight", "*-*", "a.weight"), "-");
  EXPECT_EQ(name("ab*ba", "*", "aba"), "-") << "parts do not overlap";
  EXPECT_EQ(name("fc.weight", "head.weight", "fc.weight"), "head.weight");
}

TEST(WeightNames, RulesComeFromTheConfigurationInTheirOrder) {
  const auto rules = [](const std::string& rename) {
    const auto text = "model: {name: mlp, weights: w.pth, weights_rename: " + rename +
                      "}\ndata: {name: mnist, root: data}\noptimizer: {lr: 0.1}\ntrain: {epochs: 2}\n";
    return renames_of(read_run_config(parse_config(text, "run.yaml", {})).model);
  };
  const auto read = rules(R"({body.: "", "*.gamma": "*.weight", head.:})");
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].from, "body.");
  EXPECT_EQ(read[0].to, "");
  EXPECT_EQ(read[1].from, "*.gamma");
  EXPECT_EQ(read[1].to, "*.weight");
  EXPECT_EQ(read[2].to, "");
  EXPECT_TRUE(rules("null").empty());
  const auto refused = [&](const std::string& rename) {
    return test::message_of(ErrorKind::config, [&] { rules(rename); });
  };
  EXPECT_THAT(refused("[a, b]"), AllOf(HasSubstr("model.weights_rename"), HasSubstr("a list")));
  EXPECT_THAT(refused("{a: [b]}"), AllOf(HasSubstr("'a'"), HasSubstr("a list")));
  EXPECT_THAT(refused(R"({"a.*": "*.*"})"), HasSubstr("more *"));
  EXPECT_THAT(refused(R"({"": a.})"), HasSubstr("would fit every name"));
}

class RenamedWeights : public testing::Test {
 protected:
  /// A file with a small network's tensors under other names.
  void save(const std::function<std::string(const std::string&)>& other_name) {
    TensorMap tensors;
    for (const auto& [name, tensor] : expected_state()) tensors.emplace(other_name(name), tensor);
    save_safetensors(path_, tensors);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "file.safetensors";
  torch::nn::Sequential module_ = test::small_network();
};

TEST_F(RenamedWeights, RulesMakeNamesTheModels) {
  save([](const std::string& name) {
    return "module." + (name.starts_with("0.") ? "linear." + name.substr(2) : "norms." + name.substr(2) + ".value");
  });
  const WeightNames names{.prefix = "module.", .rename = {{"linear.", "0."}, {"norms.*.value", "1.*"}}};
  EXPECT_THAT(load_weights(*module_, path_, names), IsEmpty());
  expect_equal(test::state_of(*module_), expected_state());
}

TEST_F(RenamedWeights, TheFirstRuleThatFitsChangesAName) {
  save([](const std::string& name) { return name == "0.bias" ? "x.0.b" : "x." + name; });
  load_weights(*module_, path_, {.rename = {{"x.0.b", "0.bias"}, {"x.", ""}}});
  EXPECT_THAT(test::message_of(ErrorKind::data,
                               [&] {
                                 load_weights(*module_, path_, {.rename = {{"x.", ""}, {"x.0.b", "0.bias"}}});
                               }),
              AllOf(HasSubstr("has 'x.0.b'"), HasSubstr("no name in the file")));
}

TEST_F(RenamedWeights, RulesThatFitNothingOrMakeOneOfTwoAreErrors) {
  save([](const std::string& name) { return name; });
  const auto refused = [&](const WeightNames& names) {
    return test::message_of(ErrorKind::data, [&] { load_weights(*module_, path_, names); });
  };
  EXPECT_THAT(refused({.rename = {{"0.weigth", "w"}}}), HasSubstr("did you mean '0.weight'"));
  EXPECT_THAT(refused({.rename = {{"*.weigth", "w"}}}), HasSubstr("fits it"));
  EXPECT_THAT(refused({.rename = {{"0.bias", "0.weight"}}}),
              HasSubstr("'0.bias' and '0.weight' would both be '0.weight'"));
}

// ---- what does not fit

TEST_F(RenamedWeights, WhatIsMissingIsShownWithTheNearestName) {
  save([](const std::string& name) { return name == "0.weight" ? "0.weights" : name; });
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(*module_, path_); }),
              AllOf(HasSubstr("missing in the file (1): 0.weight (near it in the file: 0.weights)"),
                    HasSubstr("unknown to the model (1): 0.weights"), HasSubstr("model.weights_rename"),
                    HasSubstr("model.weights_strict=false")));
}

TEST_F(RenamedWeights, WithoutStrictnessTheRestKeepsItsValues) {
  auto tensors = expected_state();
  tensors.erase("0.bias");
  tensors["0.weight"] = torch::zeros({2, 4});
  tensors["9.weight"] = torch::zeros({1});
  save_safetensors(path_, tensors);
  TensorMap before;
  for (const auto& [name, tensor] : test::state_of(*module_)) before.emplace(name, tensor.clone());
  const auto remarks = load_weights(*module_, path_, {.strict = false});
  EXPECT_THAT(remarks,
              ElementsAre("missing in the file (1): 0.bias", "unknown to the model (1): 9.weight",
                          "of another shape or type (1): 0.weight is Float [2, 4] in the file, Float [2, 3] in "
                          "the module"));
  auto expected = expected_state();
  for (const auto* name : {"0.weight", "0.bias"}) expected[name] = before[name];
  expect_equal(test::state_of(*module_), expected);
}

TEST_F(RenamedWeights, WithoutStrictnessNothingAtAllIsStillAnError) {
  save([](const std::string& name) { return "other." + name; });
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(*module_, path_, {.strict = false}); }),
              AllOf(HasSubstr("nothing fits"), HasSubstr("model.weights_prefix=other.")));
}

}  // namespace
}  // namespace lockstep::train
