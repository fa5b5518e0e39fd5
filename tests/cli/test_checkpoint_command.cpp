// `lockstep checkpoint`, on a folder as two ranks write it.
#include "cli/program.h"

#include <lockstep/base/crypto.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kFirst = "save_00000001.rank_00000.safetensors";
constexpr const char* kSecond = "save_00000001.rank_00001.safetensors";

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

std::string bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A safetensors file with one tensor "fc.bias", by hand.
void write_shard(const std::filesystem::path& file, const std::vector<float>& values) {
  const nlohmann::json header{
      {"fc.bias", {{"dtype", "F32"}, {"shape", {values.size()}}, {"data_offsets", {0, 4 * values.size()}}}}};
  const auto text = header.dump();
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(text.size()));
  write_file(file, std::string(length.begin(), length.end()) + text + bytes_of(values));
}

/// "fc.bias" = 0, 1, 2 with rows 0 and 1 on rank 0.
class CheckpointCommand : public testing::Test {
 protected:
  CheckpointCommand() {
    std::filesystem::create_directories(folder());
    write_shard(first_file(), {0, 1});
    write_shard(second_file(), {2});
    const auto shard = [](const char* file, int offset, const std::vector<float>& values) {
      return nlohmann::json{
          {"file", file}, {"offset", {offset}}, {"shape", {values.size()}}, {"sha256", sha256(bytes_of(values))}};
    };
    nlohmann::json index{{"lockstep_sharded", 1},
                         {"save", 1},
                         {"mesh", {{"sizes", {2}}, {"names", {"data"}}}},
                         {"metadata", {{"step", "40"}}},
                         {"tensors",
                          {{"fc.bias",
                            {{"dtype", "F32"},
                             {"shape", {3}},
                             {"placements", "[Shard(0)]"},
                             {"shards", {shard(kFirst, 0, {0, 1}), shard(kSecond, 2, {2})}}}}}}};
    index["sha256"] = sha256(index.dump());
    write_file(folder() + "/index.json", index.dump());
  }

  std::string folder() const { return folder_.path() / "ckpt"; }
  std::string other(const std::string& name) const { return folder_.path() / name; }
  std::string first_file() const { return folder() + "/" + kFirst; }
  std::string second_file() const { return folder() + "/" + kSecond; }

 private:
  TemporaryFolder folder_;
};

TEST_F(CheckpointCommand, InspectShowsWhatIsInIt) {
  const auto shown = lockstep({"checkpoint", "inspect", folder(), "--verify"});
  EXPECT_TRUE(shown.status.ok()) << shown.err;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("save 1 of a mesh 2 (data): 1 tensors, 12 bytes, in 2 files"), HasSubstr("step: 40"),
                    HasSubstr("fc.bias"), HasSubstr("[Shard(0)]"), HasSubstr("has its checksum")));
}

TEST_F(CheckpointCommand, InspectFindsWhatIsMissingOrDamaged) {
  write_shard(second_file(), {3});
  EXPECT_TRUE(lockstep({"checkpoint", "inspect", folder()}).status.ok());
  const auto damaged = lockstep({"checkpoint", "inspect", folder(), "--verify"});
  EXPECT_EQ(damaged.status, (ExitStatus{1, 0}));
  EXPECT_THAT(damaged.err, AllOf(HasSubstr("lockstep: error:"), HasSubstr("is damaged"), HasSubstr("rank_00001")));
  std::filesystem::remove(second_file());
  const auto missing = lockstep({"checkpoint", "inspect", folder()});
  EXPECT_EQ(missing.status, (ExitStatus{1, 0}));
  EXPECT_THAT(missing.err, AllOf(HasSubstr("rank_00001"), HasSubstr("is missing")));
}

TEST_F(CheckpointCommand, MergeWritesOneFileWithTheWholeTensors) {
  const auto merged = lockstep({"checkpoint", "merge", folder(), "--out", other("m.safetensors")});
  EXPECT_TRUE(merged.status.ok()) << merged.err;
  const auto file = read_file(other("m.safetensors"));
  EXPECT_TRUE(file.ends_with(bytes_of({0, 1, 2})));
  EXPECT_THAT(file, AllOf(HasSubstr("fc.bias"), HasSubstr("\"step\":\"40\"")));
}

TEST_F(CheckpointCommand, ReshardWritesItForAnotherMesh) {
  const auto made = lockstep({"checkpoint", "reshard", folder(), "--out", other("four"), "--mesh", "2x2", "--names",
                              "data,model", "--placements", "fc.*=[Replicate(), Shard(0)]"});
  EXPECT_TRUE(made.status.ok()) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("2x2 (data, model)"), HasSubstr("[Replicate(), Shard(0)]")));
  EXPECT_TRUE(lockstep({"checkpoint", "inspect", other("four"), "--verify"}).status.ok());
  lockstep({"checkpoint", "merge", folder(), "--out", other("a")});
  lockstep({"checkpoint", "merge", other("four"), "--out", other("b")});
  EXPECT_EQ(read_file(other("a")), read_file(other("b")));
}

TEST_F(CheckpointCommand, WhatMakesNoSenseIsExplained) {
  const auto refused = [&](const Words& more, const std::string& words) {
    Words all{"checkpoint", "reshard", folder(), "--out", other("x")};
    all.insert(all.end(), more.begin(), more.end());
    const auto result = lockstep(all);
    EXPECT_EQ(result.status, (ExitStatus{2, 0})) << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
  };
  refused({}, "--mesh");
  refused({"--mesh", "2y2"}, "--mesh is sizes with an x between them");
  refused({"--mesh", "0"}, "got '0'");
  refused({"--mesh", "2", "--names", "a,b"}, "2 names for the 1 axes");
  refused({"--mesh", "2", "--placements", "fc.bias"}, "NAME=PLACEMENTS");
  refused({"--mesh", "2", "--placements", "fc.bias=X"}, "is not a placement");
  refused({"--mesh", "2", "--placements", "fc.weight=R"}, "no tensor has a name like");
  const auto none = lockstep({"checkpoint", "inspect", other("nothing")});
  EXPECT_EQ(none.status, (ExitStatus{1, 0}));
  EXPECT_THAT(none.err,
              AllOf(HasSubstr("there is no file or folder " + other("nothing")), HasSubstr("step_*.sharded")));
  std::filesystem::create_directory(other("nothing"));
  const auto empty = lockstep({"checkpoint", "inspect", other("nothing")});
  EXPECT_EQ(empty.status, (ExitStatus{1, 0}));
  EXPECT_THAT(empty.err, AllOf(HasSubstr("nothing"), HasSubstr("not a sharded checkpoint")));
}

// As Hugging Face's tools have them: files, and an index that says which tensor is in which.
TEST(CheckpointShards, AreWrittenWithAnIndexAndReadBack) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto folder = bench.path() / "shards";
  const auto checkpoint = (bench.work_dir() / "checkpoints/step_00000004.sharded").string();
  // Of the layers [16, 3072] and [10, 16] the first is alone in a file, being larger than one.
  const auto merged = lockstep({"checkpoint", "merge", checkpoint, "--out", folder.string(), "--shard-size", "100KB"});
  ASSERT_TRUE(merged.status.ok()) << merged.err;
  const auto index = nlohmann::json::parse(read_file(folder / "model.safetensors.index.json"));
  std::map<std::string, std::set<std::string>> listed;
  for (const auto& [name, file] : index["weight_map"].items()) listed[file.get<std::string>()].insert(name);
  const auto count = listed.size();
  EXPECT_GT(count, 1U);
  std::int64_t bytes = 0;
  std::size_t number = 0;
  for (const auto& [file, names] : listed) {
    EXPECT_EQ(file, fmt::format("model-{:05}-of-{:05}.safetensors", ++number, count));
    const auto content = read_file(folder / file);
    std::uint64_t length = 0;
    std::memcpy(&length, content.data(), sizeof length);
    const auto header = nlohmann::json::parse(content.substr(sizeof length, length));
    std::set<std::string> stored;
    for (const auto& [name, tensor] : header.items()) {
      if (name != "__metadata__") stored.insert(name);
    }
    EXPECT_EQ(stored, names) << "the weights alone, under their own names";
    EXPECT_EQ(header["__metadata__"]["format"], "pt");
    const auto own = static_cast<std::int64_t>(content.size() - sizeof length - length);
    EXPECT_TRUE(own <= 100'000 || names.size() == 1) << file;
    bytes += own;
  }
  EXPECT_EQ(index["metadata"]["total_size"], bytes);

  const auto out = (bench.path() / "metrics.json").string();
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"));
  for (const auto& weights : {folder, folder / "model.safetensors.index.json"}) {
    const auto ran = lockstep({"eval", "--config", bench.config(), "--weights", weights.string(), "--json", out});
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    EXPECT_EQ(nlohmann::json::parse(read_file(out))["eval_loss"], result["eval_loss"]);
  }
  for (const auto* size : {"0", "4XB", "-1MB", "99999999TB"}) {
    const auto ran = lockstep({"checkpoint", "merge", checkpoint, "--out", folder.string(), "--shard-size", size});
    EXPECT_EQ(ran.status.code, 2);
    EXPECT_THAT(ran.err, HasSubstr("--shard-size is a number of bytes, like 4GB"));
  }
}

// The checkpoints of `lockstep train`: shown, merged, divided for more ranks, and trained on from there.
class CheckpointOfARun : public testing::TestWithParam<Words> {};

TEST_P(CheckpointOfARun, IsShownMergedReshardedAndTrainedOn) {
  const Workbench bench;
  const auto train = [&](const std::string& name, Words more) {
    more.insert(more.begin(), {"data.batch_size=~", "data.global_batch_size=8", "train.epochs=2",
                               "system.work_dir=" + (bench.path() / name).string()});
    more.insert(more.begin(), GetParam().begin(), GetParam().end());
    return bench.train(std::move(more));
  };
  const auto ran = under_lockstep_run(2, train("run", {}));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  std::vector<std::filesystem::path> saved;
  for (const auto& entry : std::filesystem::directory_iterator(bench.path() / "run/checkpoints")) {
    saved.push_back(entry.path());
  }
  ASSERT_EQ(saved.size(), 2u) << "one after each epoch";
  std::ranges::sort(saved);

  const auto shown = lockstep({"checkpoint", "inspect", saved.front(), "--verify"});
  EXPECT_TRUE(shown.status.ok()) << shown.err;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("of a mesh 2 (data)"), HasSubstr("in 2 files"), HasSubstr("model.fc1.weight"),
                    HasSubstr("optimizer."), HasSubstr("checkpoint of a run: "), HasSubstr("has its checksum")));
  const auto merged = lockstep({"checkpoint", "merge", saved.front(), "--out", bench.path() / "m.safetensors"});
  EXPECT_TRUE(merged.status.ok()) << merged.err;
  const auto one_file = lockstep({"checkpoint", "inspect", bench.path() / "m.safetensors", "--verify"});
  EXPECT_THAT(one_file.out, AllOf(HasSubstr("checkpoint of a run: "), HasSubstr("model.fc1.weight"),
                                  HasSubstr("its content has its checksum")))
      << one_file.err;

  const auto four = (bench.path() / "four.sharded").string();
  const auto made = lockstep({"checkpoint", "reshard", saved.front(), "--out", four, "--mesh", "4", "--names", "data"});
  EXPECT_TRUE(made.status.ok()) << made.err;
  const auto resumed = under_lockstep_run(2, train("resumed", {"checkpoint.resume=" + four}));
  ASSERT_TRUE(resumed.status.ok()) << resumed.err;
  const auto from_file =
      under_lockstep_run(2, train("from_file", {"checkpoint.resume=" + (bench.path() / "m.safetensors").string()}));
  ASSERT_TRUE(from_file.status.ok()) << from_file.err;
  const auto hash_of = [&](const std::string& name) -> std::string {
    return nlohmann::json::parse(read_file(bench.path() / name / "result.json"))["params_sha256"];
  };
  EXPECT_EQ(hash_of("resumed"), hash_of("run"));
  EXPECT_EQ(hash_of("from_file"), hash_of("run"));
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointOfARun,
                         testing::Values(Words{"parallel.mode=semi_auto", "parallel.shard={\"*\": {data: 0}}"},
                                         Words{"parallel.mode=data_parallel"},
                                         Words{"parallel.mode=data_parallel", "parallel.shard_optimizer=true"}));

}  // namespace
}  // namespace lockstep::test
