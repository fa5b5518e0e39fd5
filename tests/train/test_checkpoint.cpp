// Checkpoints on disk: what comes back, what is found damaged, what survives.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/checkpoint_folder.h>
#include <lockstep/train/safetensors.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <random>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "support/forks.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::expect_words;

Checkpoint sample(std::int64_t step, std::int64_t elements = 6) {
  Checkpoint checkpoint;
  checkpoint.state = {
      .step = step,
      .epoch = 2,
      .step_in_epoch = 3,
      .samples = 640,
      .seconds = 1.5,
      .evaluations = {{.epoch = 1, .step = 5, .accuracy = 0.5, .loss = 1.25, .samples = 10, .seconds = 0.1}},
      .settings = {{"system.seed", "1"}, {"model.name", "mlp"}}};
  add_part(checkpoint.tensors, "model", {{"weight", torch::arange(elements, torch::kFloat)}});
  add_part(checkpoint.tensors, "optimizer", {{"weight.step", torch::scalar_tensor(7, torch::kLong)}});
  checkpoint.tensors["generators"] = torch::arange(10, torch::kByte).reshape({2, 5});
  return checkpoint;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void put_bytes(const fs::path& file, std::string_view bytes) { std::ofstream(file, std::ios::binary) << bytes; }

void flip_byte(const fs::path& file, std::size_t at) {
  auto bytes = bytes_of(file);
  bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
  put_bytes(file, bytes);
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& file : list_checkpoints(folder)) steps.push_back(file.step);
  return steps;
}

void expect_equal(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(to_json(a.state), to_json(b.state));
  EXPECT_EQ(sha256_of(a.tensors), sha256_of(b.tensors));
}

class CheckpointTest : public testing::Test {
 protected:
  fs::path folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, ComesBackAsItWas) {
  const auto file = checkpoint_file(folder(), 13);
  EXPECT_EQ(file.filename(), "step_00000013.safetensors");
  save_checkpoint(file, sample(13));
  const auto loaded = load_checkpoint(file);
  expect_equal(loaded, sample(13));
  EXPECT_EQ(loaded.state.step, 13);
  EXPECT_EQ(loaded.state.evaluations.at(0).loss, 1.25);
  EXPECT_EQ(loaded.state.settings.at("model.name"), "mlp");
  const auto model = part_of(loaded.tensors, "model");
  ASSERT_EQ(model.size(), 1u);
  EXPECT_TRUE(torch::equal(model.at("weight"), torch::arange(6, torch::kFloat)));
}

TEST_F(CheckpointTest, AnyFlippedByteIsFoundOrChangesNothing) {
  const auto file = checkpoint_file(folder(), 1);
  save_checkpoint(file, sample(1));
  const auto intact = bytes_of(file);
  std::size_t harmless = 0;
  for (std::size_t at = 0; at < intact.size(); ++at) {
    flip_byte(file, at);
    try {
      expect_equal(load_checkpoint(file), sample(1));
      ++harmless;  // blanks that pad the header
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::data || error.kind() == ErrorKind::unsupported) << error.what();
    }
    put_bytes(file, intact);
  }
  EXPECT_LT(harmless, 9u);
}

TEST_F(CheckpointTest, AnyCutIsFound) {
  const auto file = checkpoint_file(folder(), 1);
  save_checkpoint(file, sample(1));
  const auto intact = bytes_of(file);
  for (std::size_t length = 0; length < intact.size(); length += 7) {
    put_bytes(file, std::string_view(intact).substr(0, length));
    expect_error(ErrorKind::data, {file.string()}, [&] { load_checkpoint(file); });
  }
}

TEST_F(CheckpointTest, AFileOfWeightsIsNoCheckpoint) {
  const auto file = folder() / "weights.safetensors";
  save_safetensors(file, {{"weight", torch::zeros({2})}});
  expect_error(ErrorKind::data, {"no checkpoint", file.string()}, [&] { load_checkpoint(file); });
}

TEST_F(CheckpointTest, AnotherVersionIsNotTakenForDamage) {
  const auto file = checkpoint_file(folder(), 4);
  save_safetensors(file, {{"weight", torch::zeros({2})}}, {{"lockstep.checkpoint", "2"}});
  expect_error(ErrorKind::unsupported, {"version 2", "reads 1"}, [&] { find_newest_intact(folder()); });
  EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{4}));
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  put_bytes(folder() / "notes.txt", "mine");
  put_bytes(folder() / "step_x.safetensors", "mine");
  for (const std::int64_t step : {5, 10, 9999999, 123456789}) save_into_folder(folder(), sample(step), 2);
  EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{123456789, 9999999}));
  EXPECT_TRUE(fs::exists(folder() / "notes.txt"));
  EXPECT_TRUE(fs::exists(folder() / "step_x.safetensors"));
}

TEST_F(CheckpointTest, NothingIsFoundInAnEmptyOrMissingFolder) {
  EXPECT_FALSE(find_newest_intact(folder()));
  EXPECT_FALSE(find_newest_intact(folder() / "missing"));
}

TEST_F(CheckpointTest, DamagedOnesAreSetAsideAndNamed) {
  for (const std::int64_t step : {10, 20, 30}) save_into_folder(folder(), sample(step), 5);
  flip_byte(checkpoint_file(folder(), 30), bytes_of(checkpoint_file(folder(), 30)).size() - 3);
  put_bytes(checkpoint_file(folder(), 20), "");
  const auto found = find_newest_intact(folder());
  ASSERT_TRUE(found);
  expect_equal(found->checkpoint, sample(10));
  EXPECT_EQ(found->file, checkpoint_file(folder(), 10));
  ASSERT_EQ(found->skipped.size(), 2u);
  expect_words(found->skipped[0], {"step_00000030.safetensors", "SHA-256"});
  expect_words(found->skipped[1], {"step_00000020.safetensors", "0 bytes"});
  EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{10}));
  EXPECT_TRUE(fs::exists(folder() / "step_00000030.safetensors.damaged"));
}

TEST_F(CheckpointTest, WhenAllAreDamagedNothingIsTouched) {
  save_into_folder(folder(), sample(10), 5);
  const auto file = checkpoint_file(folder(), 10);
  flip_byte(file, bytes_of(file).size() - 1);
  expect_error(ErrorKind::data, {"none of the 1", "step_00000010", "SHA-256"}, [&] { find_newest_intact(folder()); });
  EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{10}));
}

TEST_F(CheckpointTest, AFullDiskLeavesTheOldOnesIntact) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "no small disk here: " << why;
  test::fork_ranks(1, {}, [&](int) {
    test::mount_small_disk(folder(), 256 << 10);
    save_into_folder(folder(), sample(1, 16 << 10), 3);
    save_into_folder(folder(), sample(2, 16 << 10), 3);
    expect_error(ErrorKind::io, {"step_00000003.safetensors", "disk is full", "bytes free"},
                 [&] { save_into_folder(folder(), sample(3, 64 << 10), 3); });
    EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{2, 1}));
    expect_equal(load_checkpoint(checkpoint_file(folder(), 2)), sample(2, 16 << 10));
    expect_equal(load_checkpoint(checkpoint_file(folder(), 1)), sample(1, 16 << 10));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 2);
  });
}

TEST(RunStateTest, SettingsThatMustNotChangeAreNamedWithBothValues) {
  RunConfig config;
  config.model.name = "mlp";
  config.data.name = "mnist";
  RunState saved;
  saved.settings = run_settings(config, 2, 1000);
  EXPECT_NO_THROW(require_same_run(saved, run_settings(config, 2, 1000), "it"));
  config.optimizer.lr = 3;  // may change
  config.train.epochs = 77;
  EXPECT_NO_THROW(require_same_run(saved, run_settings(config, 2, 1000), "it"));
  config.data.batch_size *= 2;  // the same global batch on half the ranks
  EXPECT_NO_THROW(require_same_run(saved, run_settings(config, 1, 1000), "it"));
  expect_error(ErrorKind::config, {"batch_size", "64", "128"},
               [&] { require_same_run(saved, run_settings(config, 2, 1000), "it"); });
  config.system.seed = 5;
  expect_error(ErrorKind::config, {"data.shuffle_seed", "1", "5"},
               [&] { require_same_run(saved, run_settings(config, 1, 1000), "it"); });
}

TEST(RunStateTest, RefusesWhatIsNoState) {
  expect_error(ErrorKind::data, {"state"}, [] { parse_run_state("{"); });
  expect_error(ErrorKind::data, {"state", "step"}, [] { parse_run_state("{}"); });
  expect_error(ErrorKind::data, {"state"}, [] { parse_run_state(R"({"step": "one"})"); });
}

}  // namespace
}  // namespace lockstep::train
