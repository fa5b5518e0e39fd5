// Checkpoints on disk: what comes back, what is found damaged, what survives.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/models/gpt.h>
#include <lockstep/samples/table.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/index.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <random>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "support/forks.h"
#include "train/checkpoint_files.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using test::Checkpoint;
using test::content_of;
using test::expect_error;
using test::expect_words;
using test::load_intact;
using test::save_in_parts;
using test::write_old_checkpoint;

Checkpoint sample(std::int64_t step, std::int64_t elements = 6) {
  Checkpoint checkpoint;
  checkpoint.state = {.step = step,
                      .epoch = 2,
                      .step_in_epoch = 3,
                      .samples = 640,
                      .seconds = 1.5,
                      .evaluations = {{.epoch = 1,
                                       .step = 5,
                                       .loss = 1.25,
                                       .metrics = {{"accuracy", 0.5}, {"odd", 0.25}},
                                       .samples = 10,
                                       .seconds = 0.1}},
                      .settings = {{"system.seed", "1"}, {"model.name", "mlp"}}};
  add_part(checkpoint.tensors, "model", {{"weight", torch::arange(elements, torch::kFloat)}});
  add_part(checkpoint.tensors, "optimizer", {{"weight.step", torch::scalar_tensor(7, torch::kLong)}});
  checkpoint.tensors["generators"] = torch::arange(10, torch::kByte).reshape({2, 5});
  return checkpoint;
}

fs::path old_file(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("step_{:08}.safetensors", step);
}

/// The only file with tensors of a checkpoint that one rank has written.
fs::path part_of_step(const fs::path& folder, std::int64_t step) {
  return checkpoint_path(folder, step) / "save_00000001.rank_00000.safetensors";
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
  save_in_parts(folder(), sample(13), 3);
  EXPECT_EQ(checkpoint_path(folder(), 13).filename(), "step_00000013.sharded");
  const auto loaded = load_intact(checkpoint_path(folder(), 13));
  expect_equal(loaded, sample(13));
  EXPECT_EQ(loaded.state.step, 13);
  EXPECT_EQ(loaded.state.evaluations.at(0).loss, 1.25);
  EXPECT_EQ(loaded.state.evaluations.at(0).metrics,
            (std::map<std::string, double, std::less<>>{{"accuracy", 0.5}, {"odd", 0.25}}));
  EXPECT_EQ(loaded.state.settings.at("model.name"), "mlp");
  const auto model = part_of(loaded.tensors, "model");
  ASSERT_EQ(model.size(), 1u);
  EXPECT_TRUE(torch::equal(model.at("weight"), torch::arange(6, torch::kFloat)));
}

TEST_F(CheckpointTest, OneOfAnOlderProgramComesBackAsItWas) {
  write_old_checkpoint(old_file(folder(), 13), sample(13));
  expect_equal(load_intact(old_file(folder(), 13)), sample(13));
  const auto found = find_newest_intact(folder());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->saved.path, old_file(folder(), 13));
}

TEST_F(CheckpointTest, MergedItIsTheFileOfAnOlderProgram) {
  save_in_parts(folder(), sample(13), 3);
  merge_checkpoint(checkpoint_path(folder(), 13), folder() / "merged");
  write_old_checkpoint(folder() / "old", sample(13));
  EXPECT_EQ(bytes_of(folder() / "merged"), bytes_of(folder() / "old"));
}

/// Flips every byte of a file of a checkpoint. Some blanks may change nothing.
void expect_flips_found(const fs::path& file, const fs::path& checkpoint) {
  const auto intact = bytes_of(file);
  std::size_t harmless = 0;
  for (std::size_t at = 0; at < intact.size(); ++at) {
    flip_byte(file, at);
    try {
      expect_equal(load_intact(checkpoint), sample(1));
      ++harmless;  // blanks that pad the header
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::data || error.kind() == ErrorKind::unsupported) << error.what();
    }
    put_bytes(file, intact);
  }
  EXPECT_LT(harmless, 9u);
}

void expect_cuts_found(const fs::path& file, const fs::path& checkpoint) {
  const auto intact = bytes_of(file);
  // The last character of an index is white space.
  for (std::size_t length = 0; length + 1 < intact.size(); length += 7) {
    put_bytes(file, std::string_view(intact).substr(0, length));
    expect_error(ErrorKind::data, {file.string()}, [&] { load_intact(checkpoint); });
  }
  put_bytes(file, intact);
}

TEST_F(CheckpointTest, AnyFlippedByteIsFoundOrChangesNothing) {
  save_in_parts(folder(), sample(1), 3);
  expect_flips_found(part_of_step(folder(), 1), checkpoint_path(folder(), 1));
  write_old_checkpoint(old_file(folder(), 1), sample(1));
  expect_flips_found(old_file(folder(), 1), old_file(folder(), 1));
}

TEST_F(CheckpointTest, AnyCutIsFound) {
  save_in_parts(folder(), sample(1), 3);
  expect_cuts_found(part_of_step(folder(), 1), checkpoint_path(folder(), 1));
  expect_cuts_found(checkpoint_path(folder(), 1) / kIndexName, checkpoint_path(folder(), 1));
  write_old_checkpoint(old_file(folder(), 1), sample(1));
  expect_cuts_found(old_file(folder(), 1), old_file(folder(), 1));
}

TEST_F(CheckpointTest, AMissingPartOrIndexIsFound) {
  for (const std::int64_t step : {10, 20, 30}) save_in_parts(folder(), sample(step), 5);
  fs::remove(part_of_step(folder(), 30));
  fs::remove(checkpoint_path(folder(), 20) / kIndexName);
  const auto found = find_newest_intact(folder());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->saved.step, 10);
  ASSERT_EQ(found->remarks.size(), 2u);
  expect_words(found->remarks[0], {"step_00000030.sharded", "is missing", "save_00000001.rank_00000"});
  expect_words(found->remarks[1], {"step_00000020.sharded", "index.json"});
}

// Of another checkpoint, with tensors of other sizes.
TEST_F(CheckpointTest, AnIndexThatDoesNotFitIsFound) {
  save_in_parts(folder(), sample(10), 5);
  save_in_parts(folder(), sample(20, 7), 5);
  fs::copy_file(checkpoint_path(folder(), 10) / kIndexName, checkpoint_path(folder(), 20) / kIndexName,
                fs::copy_options::overwrite_existing);
  expect_error(ErrorKind::data, {"by the index", "model.weight", "[6]", "it holds F32 [7]"},
               [&] { load_intact(checkpoint_path(folder(), 20)); });
}

TEST_F(CheckpointTest, AFileOfWeightsIsNoCheckpoint) {
  const auto file = folder() / "weights.safetensors";
  save_safetensors(file, {{"weight", torch::zeros({2})}});
  expect_error(ErrorKind::data, {"not a checkpoint", file.string()}, [&] { load_intact(file); });
}

TEST_F(CheckpointTest, AnotherVersionIsNotTakenForDamage) {
  const auto file = old_file(folder(), 4);
  save_safetensors(file, {{"weight", torch::zeros({2})}}, {{"lockstep.checkpoint", "2"}});
  expect_error(ErrorKind::unsupported, {"version 2", "reads 1"}, [&] { find_newest_intact(folder()); });
  EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{4}));
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  put_bytes(folder() / "notes.txt", "mine");
  put_bytes(folder() / "step_x.safetensors", "mine");
  write_old_checkpoint(old_file(folder(), 1), sample(1));
  for (const std::int64_t step : {5, 10, 9999999, 123456789}) save_in_parts(folder(), sample(step), 2);
  EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{123456789, 9999999}));
  EXPECT_TRUE(fs::exists(folder() / "notes.txt"));
  EXPECT_TRUE(fs::exists(folder() / "step_x.safetensors"));
}

TEST_F(CheckpointTest, OfTheSameStepTheNewOneTakesThePlace) {
  save_in_parts(folder(), sample(5, 3), 2);
  save_in_parts(folder(), sample(5, 8), 2);
  expect_equal(load_intact(checkpoint_path(folder(), 5)), sample(5, 8));
}

TEST_F(CheckpointTest, NothingIsFoundInAnEmptyOrMissingFolder) {
  EXPECT_FALSE(find_newest_intact(folder()));
  EXPECT_FALSE(find_newest_intact(folder() / "missing"));
}

TEST_F(CheckpointTest, DamagedOnesAreSetAsideAndNamed) {
  for (const std::int64_t step : {10, 40}) save_in_parts(folder(), sample(step), 5);
  for (const std::int64_t step : {20, 30}) write_old_checkpoint(old_file(folder(), step), sample(step));
  flip_byte(part_of_step(folder(), 40), bytes_of(part_of_step(folder(), 40)).size() - 3);
  flip_byte(old_file(folder(), 30), bytes_of(old_file(folder(), 30)).size() - 3);
  put_bytes(old_file(folder(), 20), "");
  const auto found = find_newest_intact(folder());
  ASSERT_TRUE(found);
  expect_equal(content_of(found->saved), sample(10));
  EXPECT_EQ(found->saved.path, checkpoint_path(folder(), 10));
  ASSERT_EQ(found->remarks.size(), 3u);
  expect_words(found->remarks[0], {"step_00000040.sharded", "SHA-256"});
  expect_words(found->remarks[1], {"step_00000030.safetensors", "SHA-256"});
  expect_words(found->remarks[2], {"step_00000020.safetensors", "0 bytes"});
  EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{10}));
  EXPECT_TRUE(fs::exists(folder() / "step_00000030.safetensors.damaged"));
  EXPECT_TRUE(fs::exists(folder() / "step_00000040.sharded.damaged"));
}

TEST_F(CheckpointTest, WhenAllAreDamagedNothingIsTouched) {
  save_in_parts(folder(), sample(10), 5);
  const auto file = part_of_step(folder(), 10);
  flip_byte(file, bytes_of(file).size() - 1);
  expect_error(ErrorKind::data, {"none of the 1", "step_00000010", "SHA-256"}, [&] { find_newest_intact(folder()); });
  EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{10}));
}

TEST_F(CheckpointTest, AFullDiskLeavesTheOldOnesIntact) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "no small disk here: " << why;
  test::fork_ranks(1, {}, [&](int) {
    test::mount_small_disk(folder(), 256 << 10);
    save_in_parts(folder(), sample(1, 16 << 10), 3);
    save_in_parts(folder(), sample(2, 16 << 10), 3);
    expect_error(ErrorKind::io, {"step_00000003.sharded", "disk is full", "bytes free"},
                 [&] { save_in_parts(folder(), sample(3, 64 << 10), 3); });
    EXPECT_EQ(steps_in(folder()), (std::vector<std::int64_t>{2, 1}));
    expect_equal(load_intact(checkpoint_path(folder(), 2)), sample(2, 16 << 10));
    expect_equal(load_intact(checkpoint_path(folder(), 1)), sample(1, 16 << 10));
    remove_remains(folder());
    EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 2);
  });
}

ResolvedRun small_config() {
  ResolvedRun config;
  config.model.name = "mlp";
  config.data.name = "mnist";
  config.optimizer.lr = 0.1;
  return config;
}

/// The state of a run of that configuration, and what another run finds when it goes on from there.
RunState state_of(const ResolvedRun& config, const RunFacts& facts = {.ranks = 2, .total_steps = 10}) {
  RunState state;
  state.settings = run_settings(config, facts.ranks, 1000);
  state.configuration = recorded_configuration(config, facts);
  return parse_run_state(to_json(state));
}

std::vector<Change> changes_to(const RunState& saved, const ResolvedRun& config,
                               const RunFacts& facts = {.ranks = 2, .total_steps = 10}) {
  return find_changes(saved, run_settings(config, facts.ranks, 1000), recorded_configuration(config, facts), config);
}

void expect_weight(Weight weight, const std::string& key, const std::vector<Change>& changes) {
  ASSERT_EQ(changes.size(), 1U) << key;
  EXPECT_EQ(changes[0].key, key);
  EXPECT_EQ(changes[0].weight, weight) << key;
}

TEST(ChangesTest, WhatMustStayTheSameIsNamedWithBothValues) {
  ResolvedRun config = small_config();
  const auto saved = state_of(config);
  EXPECT_TRUE(changes_to(saved, config).empty());
  config.data.batch_size = 64;  // the same global batch on half the ranks
  EXPECT_NO_THROW(require_allowed(changes_to(saved, config, {.ranks = 1, .total_steps = 10}), config, "it"));
  config.checkpoint.allow_changes = make_scalar("true");  // does not help
  expect_error(ErrorKind::config,
               {"cannot go on from it", "x ranks): 64 -> 128", "data.global_batch_size=64 in place", "another",
                "data.batch_size: ~ -> 64"},
               [&] { require_allowed(changes_to(saved, config), config, "it"); });
  config = small_config();
  config.system.seed = 5;
  expect_error(ErrorKind::config, {"data.shuffle_seed: 1 -> 5", "system.seed: 1 -> 5"},
               [&] { require_allowed(changes_to(saved, config), config, "it"); });
  config = small_config();
  config.model.hidden = {32};
  expect_weight(Weight::fixed, "model.hidden", changes_to(saved, config));
}

TEST(ChangesTest, WhatShapesTheResultNeedsConsent) {
  const auto saved = state_of(small_config());
  ResolvedRun config = small_config();
  config.optimizer.lr = 0.2;
  config.callbacks.loss_every = 7;
  const auto changes = changes_to(saved, config);
  const auto go_on = [&](const ConfigNode& allowed) {
    config.checkpoint.allow_changes = allowed;
    require_allowed(changes, config, "it");
  };
  const auto list = [](const std::string& key) {
    ConfigNode node;
    node.kind = ConfigNode::Kind::list;
    node.items = {make_scalar(key)};
    return node;
  };
  for (const auto& refused : {make_null(), make_scalar("false"), list("scheduler"), list("optimizer.momentum")}) {
    expect_error(ErrorKind::config,
                 {"optimizer.lr: 0.1 -> 0.2", "optimizer.lr]", "callbacks.loss_every: ~ -> 7", "another"},
                 [&] { go_on(refused); });
  }
  auto with_betas = list("optimizer.betas");  // of an optimizer that is not named
  with_betas.items.push_back(make_scalar("optimizer.lr"));
  for (const auto& allowed :
       {make_scalar("true"), make_scalar("optimizer.lr"), list("optimizer.lr"), list("optimizer"), with_betas}) {
    EXPECT_NO_THROW(go_on(allowed));
  }
  for (const auto& wrong : {list("optimizer.rl"), make_scalar("yes"), make_section()}) {
    config.checkpoint.allow_changes = wrong;
    expect_error(ErrorKind::config, {"checkpoint.allow_changes", "expected true"},
                 [&] { check_allowed_changes(config); });
  }
}

TEST(ChangesTest, WeighWhatTheyMean) {
  const auto expect = [](Weight weight, const std::string& key, const std::function<void(ResolvedRun&)>& change,
                         ResolvedRun base = small_config(), bool has_batch_norm = true) {
    const RunFacts before{.ranks = 2, .total_steps = 10, .has_batch_norm = has_batch_norm};
    const auto saved = state_of(base, before);
    change(base);
    const RunFacts now{.ranks = 2, .total_steps = base.train.epochs ? 20 : 10, .has_batch_norm = has_batch_norm};
    expect_weight(weight, key, changes_to(saved, base, now));
  };
  expect(Weight::shapes_result, "loss.label_smoothing", [](auto& c) { c.loss.label_smoothing = 0.1; });
  expect(Weight::shapes_result, "scheduler.name", [](auto& c) { c.scheduler.name = "step"; });
  expect(Weight::shapes_result, "optimizer.momentum",
         [](auto& c) { choose(c.optimizer, "momentum", SgdSettings{.momentum = 0.5}); });
  ResolvedRun decaying = small_config();
  choose(decaying.scheduler, "step", StepSettings{});
  expect(
      Weight::shapes_result, "scheduler.step_size",
      [](auto& c) { choose(c.scheduler, "step", StepSettings{.step_size = 3}); }, decaying);
  expect(Weight::shown, "system.work_dir", [](auto& c) { c.system.work_dir = "./out"; });
  expect(Weight::shown, "train.epochs", [](auto& c) { c.train.epochs = 7; });
  ResolvedRun cosine = small_config();
  cosine.scheduler.name = "cosine";
  expect(
      Weight::shapes_result, "train.epochs", [](auto& c) { c.train.epochs = 7; }, cosine);
  expect(
      Weight::shown, "train.steps", [](auto& c) { c.train.steps = 10; }, cosine);  // it ends there anyway
  expect(Weight::shapes_result, "parallel.sync_batch_norm", [](auto& c) { c.parallel.sync_batch_norm = true; });
  const auto saved = state_of(small_config());
  ResolvedRun same = small_config();
  choose(same.optimizer, "momentum", SgdSettings{.momentum = 0.9});  // its default
  same.parallel.sync_batch_norm = true;                              // without batch norms
  same.checkpoint.resume = "some/file";
  same.cluster.worker_num = 8;
  EXPECT_TRUE(changes_to(saved, same).empty());
  ResolvedRun global = small_config();
  global.parallel.mode = "semi_auto";
  expect_weight(Weight::shown, "parallel.mode", changes_to(saved, global));
}

struct OfProgram {
  std::string labels = "labels.txt";
  double noise = 0;
};
void describe(ConfigFields& fields, OfProgram& options) {
  fields.field("labels", options.labels, a_path(), "a file");
  fields.field("noise", options.noise, anything(), "a number");
}

TEST(ChangesTest, OptionsOfPartsShapeTheResultAndPathsDoNot) {
  const auto table = [](samples::TableOptions options) {
    ResolvedRun config = small_config();
    choose(config.data, "csv", std::move(options));
    return config;
  };
  samples::TableOptions before;
  before.train = "a.csv";
  before.eval = "b.csv";
  before.numbers = {"x"};
  before.targets = {"y"};
  const auto with = [&](const auto& change) {
    auto options = before;
    change(options);
    return changes_to(state_of(table(before)), table(options));
  };
  expect_weight(Weight::shapes_result, "data.targets", with([](auto& o) { o.targets = {"z"}; }));
  expect_weight(Weight::shapes_result, "data.numbers", with([](auto& o) { o.numbers = {"x", "w"}; }));
  expect_weight(Weight::shapes_result, "data.standardize", with([](auto& o) { o.standardize = false; }));
  expect_weight(Weight::shapes_result, "data.fill", with([](auto& o) { o.fill = "mean"; }));
  expect_weight(Weight::shapes_result, "data.separator", with([](auto& o) { o.separator = ";"; }));
  expect_weight(Weight::shown, "data.train", with([](auto& o) { o.train = "moved/a.csv"; }));
  expect_weight(Weight::shown, "data.eval", with([](auto& o) { o.eval = "moved/b.csv"; }));

  ResolvedRun gpt = small_config(), dropping = small_config();
  gpt.model.name = dropping.model.name = "gpt";
  choose(dropping.model, "gpt", models::GptShape{.dropout = 0.1});
  const auto dropout = changes_to(state_of(gpt), dropping);
  expect_weight(Weight::shapes_result, "model.dropout", dropout);
  expect_error(ErrorKind::config, {"model.dropout: 0 -> 0.1", "checkpoint.allow_changes=[model.dropout]"},
               [&] { require_allowed(dropout, dropping, "it"); });
  for (const auto* allowed : {"model.dropout", "model"}) {
    dropping.checkpoint.allow_changes = make_scalar(allowed);
    EXPECT_NO_THROW(require_allowed(dropout, dropping, "it")) << allowed;
  }

  // A data set that a user's program brings.
  const auto parts = std::make_shared<Parts>(shipped_parts());
  parts->data.push_back(
      {.name = "own", .options = PartOptions::of(OfProgram{}), .load = [](auto&&...) { return nullptr; }});
  ResolvedRun own({}, parts);
  own.model.name = "mlp";
  own.optimizer.lr = 0.1;
  choose(own.data, "own", OfProgram{});
  const auto saved = state_of(own);
  choose(own.data, "own", OfProgram{.labels = "moved.txt"});
  expect_weight(Weight::shown, "data.labels", changes_to(saved, own));
  choose(own.data, "own", OfProgram{.noise = 1});
  expect_weight(Weight::shapes_result, "data.noise", changes_to(saved, own));
  own.checkpoint.allow_changes = make_scalar("data.noise");
  EXPECT_NO_THROW(require_allowed(changes_to(saved, own), own, "it"));
}

TEST(ChangesTest, KeysOfAProgramShapeTheResult) {
  const auto with_width = [](const std::string& width) {
    ResolvedRun config = small_config();
    config.has_own_model = config.has_own_data = true;
    config.program = make_section();
    config.program.entries.push_back({"width", make_scalar(width)});
    return config;
  };
  auto config = with_width("4");
  const auto changes = changes_to(state_of(with_width("3")), config);
  expect_weight(Weight::shapes_result, "program.width", changes);
  config.checkpoint.allow_changes = make_scalar("program.width");
  EXPECT_NO_THROW(require_allowed(changes, config, "it"));
}

TEST(ChangesTest, KeysThatOnlyOtherOptimizersHaveAreNoChange) {
  // Programs before recorded the keys of all of them, in each run.
  auto saved = state_of(small_config());
  for (const auto* key : {"optimizer.eps", "optimizer.betas", "scheduler.step_size"}) saved.configuration[key] = "5";
  EXPECT_TRUE(changes_to(saved, small_config()).empty());
}

TEST(ChangesTest, OfOlderProgramsOnlyTheSettingsAreCompared) {
  auto saved = state_of(small_config());
  saved.configuration.clear();
  EXPECT_EQ(to_json(parse_run_state(to_json(saved))), to_json(saved));
  ResolvedRun config = small_config();
  config.optimizer.lr = 3;
  EXPECT_TRUE(changes_to(saved, config).empty());
  config.train.accumulate = 2;
  expect_weight(Weight::fixed, "train.accumulate", changes_to(saved, config));
}

TEST(RunStateTest, KeepsTheTimesOfTheRun) {
  auto state = state_of(small_config());
  state.times = {{"start", 1.5}, {"compute", 20.25}};
  EXPECT_EQ(parse_run_state(to_json(state)).times, state.times);
  for (const auto seconds : {-1.0, 1e300}) {
    state.times["compute"] = seconds;
    expect_error(ErrorKind::data, {"state", "time"}, [&] { parse_run_state(to_json(state)); });
  }
}

TEST(RunStateTest, RefusesWhatIsNoState) {
  expect_error(ErrorKind::data, {"state"}, [] { parse_run_state("{"); });
  expect_error(ErrorKind::data, {"state", "step"}, [] { parse_run_state("{}"); });
  expect_error(ErrorKind::data, {"state"}, [] { parse_run_state(R"({"step": "one"})"); });
}

}  // namespace
}  // namespace lockstep::train
