// Weights from files of torch.save and under other names. pth/write_files.py says what is in the files.
#include "base/expect_error.h"
#include "state/pth/made_mindspore.h"
#include "support/read_file.h"
#include "train/small_network.h"

#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/state/pth/load.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/safetensors_header.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/parameter_names.h>
#include <lockstep/train/named_tensors.h>

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
NamedTensors expected_state() {
  NamedTensors state;
  int tens = 0;
  for (const auto* name : {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}) {
    state.emplace(name, torch::arange(std::string_view(name) == "0.weight" ? 6 : 2, torch::kFloat) + tens);
    tens += 10;
  }
  state["0.weight"] = state["0.weight"].reshape({2, 3});
  state["1.num_batches_tracked"] = torch::tensor(60);
  return state;
}

void expect_equal(const NamedTensors& actual, const NamedTensors& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_EQ(actual.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(actual.at(name).equal(tensor)) << name << "\n" << actual.at(name);
  }
}

TEST(PthTensors, EveryDtypeAndViewHasItsValues) {
  const auto base = torch::arange(20, torch::kFloat).reshape({4, 5});
  NamedTensors expected = {
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
  EXPECT_THAT(load_weights(*mixed, pth("mixed.pth")),
              ElementsAre("left out, as they are not tensors that are read (1): epoch (a number)"));
}

TEST(Weights, FilesOfTorchSaveThatCannotBeReadSayWhatToDo) {
  auto module = test::small_network();
  const auto refused = [&](const std::string& name) {
    return test::message_of(ErrorKind::data, [&] { load_weights(*module, pth(name)); });
  };
  EXPECT_THAT(refused("parallel.pth"), HasSubstr("set model.weights_prefix=module."));
  const TemporaryFolder folder;
  torch::save(torch::ones({3}), (folder.path() / "cpp.pt").string());
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(*module, folder.path() / "cpp.pt"); }),
              HasSubstr("TorchScript"));
}

TEST(Weights, WhatIsBesideThemIsListedAndNotRun) {
  auto module = test::small_network();
  EXPECT_THAT(load_weights(*module, pth("system.pth")),
              ElementsAre("left out, as they are not tensors that are read (1): x (posix.system)"));
  expect_equal(test::state_of(*module), expected_state());
  EXPECT_THAT(load_weights(*module, pth("namespace.pth")),
              ElementsAre("the weights are those under \"state_dict\" in the file",
                          "left out, as they are not tensors that are read (1): args (argparse.Namespace)"));
  torch::nn::Module needs_another;
  needs_another.register_parameter("w", torch::zeros({2}));
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(needs_another, pth("complex.pth")); }),
              HasSubstr("'w' is there, and is a tensor of dtype C64, which is not read"));
}

TEST(Weights, TheFormBeforeZipAndAKey) {
  for (const auto* name : {"old.pth", "old4.pth", "protocol4.pth", "old_checkpoint.pth", "found.pth"}) {
    auto module = test::small_network();
    load_weights(*module, pth(name));
    expect_equal(test::state_of(*module), expected_state());
  }
  expect_equal(load_pth(pth("old_views.pth")).tensors, load_pth(pth("views.pth")).tensors);
  auto module = test::small_network();
  EXPECT_THAT(load_weights(*module, pth("two.pth"), {.key = "ema.module"}),
              ElementsAre("the weights are those under \"ema.module\" in the file"));
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(*module, pth("two.pth"), {.key = "nett"}); }),
              HasSubstr("model.weights_key is 'nett'"));
}

// ---- other frameworks and several files

class OtherFiles : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::vector<std::string> load(const std::filesystem::path& path, const WeightNames& names = {}) {
    return load_weights(*module_, path, names);
  }

  std::string refused(const std::filesystem::path& path) {
    return test::message_of(ErrorKind::data, [&] { load(path); });
  }

  /// The small network in two files and their index.
  std::filesystem::path two_shards(const std::string& folder) {
    auto first = expected_state();
    NamedTensors second;
    for (const auto* name : {"1.bias", "1.running_mean"}) second.insert(first.extract(name));
    std::filesystem::create_directories(folder_.path() / folder);
    save_safetensors(folder_.path() / folder / "model-00001-of-00002.safetensors", first);
    save_safetensors(folder_.path() / folder / "model-00002-of-00002.safetensors", second);
    ShardFiles files;
    for (const auto& [name, tensor] : first) files.emplace(name, shard_name(1, 2));
    for (const auto& [name, tensor] : second) files.emplace(name, shard_name(2, 2));
    return write(folder + "/model.safetensors.index.json", format_shard_index(files, 100));
  }

  std::string bytes_of(const at::Tensor& tensor) const {
    return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
  }

  /// As MindSpore saves the small network, with its optimizer.
  std::string checkpoint_of_mindspore() const {
    std::string file;
    const std::map<std::string, std::string> theirs = {{"1.weight", "1.gamma"},
                                                       {"1.bias", "1.beta"},
                                                       {"1.running_mean", "1.moving_mean"},
                                                       {"1.running_var", "1.moving_variance"}};
    for (const auto& [name, tensor] : expected_state()) {
      if (name == "1.num_batches_tracked") continue;
      const auto known = theirs.find(name);
      const auto tag = known == theirs.end() ? name : known->second;
      std::vector<std::uint64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
      file += test::mindspore_value(tag, sizes, "Float32", bytes_of(tensor));
      file += test::mindspore_value("moments." + tag, sizes, "Float32", bytes_of(tensor));
    }
    return file + test::mindspore_value("epoch_num", {}, "Int32", std::string(4, '\1'));
  }

  TemporaryFolder folder_;
  torch::nn::Sequential module_ = test::small_network();
};

TEST_F(OtherFiles, CheckpointsOfMindspore) {
  auto expected = expected_state();
  expected["1.num_batches_tracked"] = torch::tensor(0);
  const auto remarks = load(write("small.ckpt", checkpoint_of_mindspore()));
  expect_equal(test::state_of(*module_), expected);
  EXPECT_THAT(remarks, Contains("names of another framework (4): '1.beta' as '1.bias', ..."));
  EXPECT_THAT(remarks, Contains(HasSubstr("epoch_num (a part of the training's state), moments.0.bias")));
  EXPECT_THAT(refused(write("odd.ckpt", "\x0a\x02\x0a\x09")), HasSubstr("MindSpore"));
}

TEST_F(OtherFiles, AnIndexOrItsFolder) {
  for (const auto& path : {two_shards("a"), two_shards("b").parent_path()}) {
    module_ = test::small_network();
    EXPECT_THAT(load(path), ElementsAre(HasSubstr("the weights are in 2 files")));
    expect_equal(test::state_of(*module_), expected_state());
  }
  const auto bin = write("bin/pytorch_model.bin.index.json", R"({"weight_map": {"0.weight": "all.bin"}})");
  std::filesystem::copy(pth("plain.pth"), bin.parent_path() / "all.bin");
  EXPECT_THAT(load(bin.parent_path()), Contains("6 tensors of these files are not in their index"));
}

TEST_F(OtherFiles, AnIndexThatIsWrong) {
  const auto index = two_shards("a");
  std::filesystem::remove(index.parent_path() / "model-00002-of-00002.safetensors");
  EXPECT_THAT(refused(index),
              HasSubstr("1 of the 2 files that it names are not there: model-00002-of-00002.safetensors "
                        "(2 tensors)"));
  std::filesystem::create_symlink(pth("plain.pth"), index.parent_path() / "model-00002-of-00002.safetensors");
  EXPECT_THAT(refused(index), HasSubstr("a link that leaves the folder"));
  const auto twice = two_shards("b");
  save_safetensors(
      twice.parent_path() / "model-00002-of-00002.safetensors",
      {{"1.bias", torch::zeros({2})}, {"1.running_mean", torch::zeros({2})}, {"0.bias", torch::zeros({2})}});
  EXPECT_THAT(refused(twice), HasSubstr("\"0.bias\" is in model-00001-of-00002.safetensors and in model-00002"));
  const auto less = two_shards("c");
  save_safetensors(less.parent_path() / "model-00002-of-00002.safetensors", {{"1.bias", torch::zeros({2})}});
  EXPECT_THAT(refused(less), HasSubstr("\"1.running_mean\" should be in model-00002-of-00002.safetensors"));
  const auto with = [&](const std::string& text) { return refused(write("odd.index.json", text)); };
  EXPECT_THAT(with(R"({"weight_map": {"a": "../x.safetensors"}})"), HasSubstr("only files in the folder"));
  EXPECT_THAT(with(R"({"weight_map": {"a": "/etc/passwd"}})"), HasSubstr("only files in the folder"));
  EXPECT_THAT(with(R"({"weight_map": {"a": "b", "a": "c"}})"), HasSubstr("\"a\" twice"));
  EXPECT_THAT(with(R"({"weight_map": 1})"), HasSubstr("weight_map"));
  EXPECT_THAT(with("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(with("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("Git LFS"));
}

TEST_F(OtherFiles, WhatADownloadLeftInThePlaceOfAFile) {
  EXPECT_THAT(refused(write("a.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n")),
              AllOf(HasSubstr("pointer of Git LFS"), HasSubstr("git lfs pull")));
  EXPECT_THAT(refused(write("b.pth", "\n<!DOCTYPE html><html><body>404</body></html>")), HasSubstr("an HTML page"));
  EXPECT_THAT(refused(write("c.pth", "<html>x")), HasSubstr("an HTML page"));
}

TEST_F(OtherFiles, TensorsOfUnknownDtypesThatNobodyNeeds) {
  const auto with = [&](const std::string& dtype) {
    const std::string header = R"({"0.bias":{"dtype":")" + dtype + R"(","shape":[2],"data_offsets":[0,8]}})";
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    return write("file.safetensors", length + header + std::string(8, '\0'));
  };
  EXPECT_THAT(load(with("C32"), {.except = {"0.*", "1.*"}}),
              ElementsAre("left out, as they are not tensors that are read (1): 0.bias (a tensor of dtype C32)"));
  EXPECT_THAT(refused(with("C32")), HasSubstr("'0.bias' is there, and is a tensor of dtype C32, which is not read"));
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
    NamedTensors tensors;
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
  NamedTensors before;
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

TEST_F(RenamedWeights, TheErrorEndsWithTheWordsThatAddABeginning) {
  const auto refused = [&] { return test::message_of(ErrorKind::data, [&] { load_weights(*module_, path_); }); };
  save([](const std::string& name) { return "module._orig_mod." + name; });
  EXPECT_THAT(refused(), HasSubstr("all names in the file begin with 'module._orig_mod.': set "
                                   "model.weights_prefix=module._orig_mod."));
  const auto half = [](const std::string& name) { return name.starts_with("0.") ? "module." + name : name; };
  save(half);
  EXPECT_THAT(refused(), HasSubstr("2 names in the file begin with 'module.'"));
  load_weights(*module_, path_, {.prefix = "module."});
  save([&](const std::string& name) { return name.starts_with("0.") ? "module." + name : "_orig_mod." + name; });
  EXPECT_THAT(refused(), HasSubstr("set 'model.weights_rename={module.: \"\", _orig_mod.: \"\"}'"));
  load_weights(*module_, path_, {.rename = {{"module.", ""}, {"_orig_mod.", ""}}});
  torch::nn::Module around;
  around.register_module("0", module_.ptr());
  save([](const std::string& name) { return name; });
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(around, path_); }),
              HasSubstr("set 'model.weights_rename={\"*\": \"0.*\"}'"));
}

TEST_F(RenamedWeights, CountsOfBatchesMayBeMissing) {
  auto tensors = expected_state();
  tensors.erase("1.num_batches_tracked");
  save_safetensors(path_, tensors);
  EXPECT_THAT(load_weights(*module_, path_), IsEmpty());
}

TEST_F(RenamedWeights, WithoutStrictnessNothingAtAllIsStillAnError) {
  save([](const std::string& name) { return "other." + name; });
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { load_weights(*module_, path_, {.strict = false}); }),
              AllOf(HasSubstr("nothing fits"), HasSubstr("model.weights_prefix=other.")));
}

}  // namespace
}  // namespace lockstep::train
