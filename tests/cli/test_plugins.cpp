// Plugins: shared libraries that a configuration names (examples/spirals_plugin.cpp, failing_plugin.cpp).
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

nlohmann::json plugin_result_in(const std::filesystem::path& work_dir) {
  return nlohmann::json::parse(read_file(work_dir / "result.json"), nullptr, /*allow_exceptions=*/false);
}

class Plugins : public testing::Test {
 protected:
  Plugins() {
    write_file(path("run.yaml"),
               "plugins: [" LOCKSTEP_FAILING_PLUGIN
               "]\nmodel: {name: failing_net}\ndata: {name: failing_line, "
               "global_batch_size: 8}\noptimizer: {name: dragged, lr: 0.1}\nscheduler: {name: halved}\n"
               "train: {epochs: 2}\n");
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  Words train(Words more = {}) const {
    more.insert(more.begin(),
                {LOCKSTEP_BINARY, "train", "--config", path("run.yaml"), "system.work_dir=" + path("out")});
    return more;
  }

  /// The failing plugin with `text` of its file replaced by another of the same length.
  std::string patched(const std::string& text, const std::string& by) const {
    auto bytes = read_file(LOCKSTEP_FAILING_PLUGIN);
    std::size_t found = 0;
    for (auto at = bytes.find(text); at != std::string::npos; at = bytes.find(text, at + 1), ++found) {
      bytes.replace(at, text.size(), by);
    }
    EXPECT_GT(found, 0u) << text;
    write_file(path("libpatched.so"), bytes);
    return path("libpatched.so");
  }

  /// What `lockstep train` says of that plugin, of which nothing must run.
  std::string refusal_of(const std::string& plugin) const {
    const auto mark = path("loaded");
    const auto ran = run_program(train({"plugins=[" + plugin + "]"}), {{"LOCKSTEP_TEST_LOADED", mark}});
    EXPECT_EQ(ran.status.code, 2) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(mark)) << plugin;
    return ran.err;
  }

  TemporaryFolder folder_;
};

TEST_F(Plugins, ArePlacedRelativeToTheFileThatNamesThem) {
  std::filesystem::create_directories(path("configs/libs"));
  std::filesystem::copy(LOCKSTEP_EXAMPLES "/libspirals_plugin.so", path("configs/libs/libspirals.so"));
  write_file(path("configs/run.yaml"),
             "base: " LOCKSTEP_SOURCE_DIR "/examples/spirals.yaml\nplugins: [libs/libspirals.so]\n");
  const auto ran = lockstep({"train", "--config", path("configs/run.yaml"), "--dry-run"});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("configs/libs/libspirals.so"));
}

// Also where the run was started with a path relative to the current folder.
TEST_F(Plugins, TheConfigurationOfARunIsReadFromAnyFolder) {
  const auto relative = std::filesystem::relative(LOCKSTEP_FAILING_PLUGIN).string();
  ASSERT_TRUE(run_program(train({"plugins=[" + relative + "]"})).status.ok());
  const auto eval =
      run_program({"/bin/sh", "-c", "cd / && exec \"$0\" \"$@\"", LOCKSTEP_BINARY, "eval", "--weights", path("out")});
  EXPECT_TRUE(eval.status.ok()) << eval.err;
}

TEST_F(Plugins, AProgramNamesThemInItsConfiguration) {
  const auto ran = run_program({LOCKSTEP_CONFIGURED_PROGRAM, "plugin", path("out"), LOCKSTEP_FAILING_PLUGIN});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_TRUE(plugin_result_in(path("out")).contains("params_sha256"));
}

// docs/ocr.md: the program `lockstep` has these parts, and programs of users load them.
TEST_F(Plugins, ThePartsForTextInPicturesAreOneForOtherPrograms) {
  write_file(path("ocr.yaml"), "plugins: [" LOCKSTEP_OCR_PLUGIN "]\n");
  const auto listed = run_program({LOCKSTEP_PARTS_PROGRAM, "--config", path("ocr.yaml"), "--list", "models"});
  EXPECT_THAT(listed.out, AllOf(HasSubstr("dbnet"), HasSubstr("crnn"))) << listed.err;
  const auto same = run_program(train({"plugins=[" LOCKSTEP_FAILING_PLUGIN ", " LOCKSTEP_OCR_PLUGIN "]", "--dry-run"}));
  EXPECT_TRUE(same.status.ok()) << same.err;  // `lockstep` reads the config.yaml of their runs
}

TEST_F(Plugins, TheExampleTrainsAndIsListed) {
  const std::string example = LOCKSTEP_EXAMPLES "/libspirals_plugin.so";
  const Words words = {LOCKSTEP_BINARY,
                       "train",
                       "--config",
                       LOCKSTEP_SOURCE_DIR "/examples/spirals.yaml",
                       "plugins=[" + example + "]",
                       "system.work_dir=" + path("spirals")};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  EXPECT_THAT(run_program(with({"--list", "models"})).out,
              AllOf(HasSubstr("three linear layers for points of a plane"), HasSubstr("resnet50")));
  EXPECT_THAT(run_program(with({"--help-keys"})).out, HasSubstr("data.noise (number, from 0 to 1, default 0.02)"));
  EXPECT_THAT(run_program(with({"--dry-run"})).out, HasSubstr("middle.weight"));
  EXPECT_THAT(run_program(with({"model.widht=3"})).err, HasSubstr("did you mean 'width'"));
  EXPECT_THAT(run_program(with({"callbacks.use=[{early_stopping: {metric: acuracy}}]"})).err,
              HasSubstr("it has loss, accuracy; did you mean 'accuracy'?"));
  ASSERT_TRUE(under_lockstep_run(2, words).status.ok());
  const auto two = plugin_result_in(path("spirals"));
  EXPECT_GT(two["eval_accuracy"], 0.9);
  EXPECT_THAT(read_file(path("spirals") + "/config.yaml"), HasSubstr(example));
}

TEST_F(Plugins, BringsOptimizersSchedulesAndLosses) {
  // The plugin's optimizer is libtorch's momentum, its schedule a rate of half: the same numbers as ours.
  for (const std::string mode : {"data_parallel", "semi_auto"}) {
    ASSERT_TRUE(under_lockstep_run(2, train({"parallel.mode=" + mode, "optimizer.drag=0.2",
                                             "optimizer.weight_decay=0.1", "optimizer.no_decay=[biases]",
                                             "optimizer.groups=[{match: out.weight, "
                                             "lr_factor: 0.5}]"}))
                    .status.ok());
    const auto own = plugin_result_in(path("out"))["params_sha256"];
    std::filesystem::remove_all(path("out"));
    ASSERT_TRUE(under_lockstep_run(2, train({"parallel.mode=" + mode,
                                             "optimizer={name: momentum, momentum: 0.8, lr: 0.05, "
                                             "weight_decay: 0.1, no_decay: [biases], groups: [{match: out.weight, "
                                             "lr_factor: 0.5}]}",
                                             "scheduler={}"}))
                    .status.ok());
    EXPECT_EQ(plugin_result_in(path("out"))["params_sha256"], own) << mode;
    std::filesystem::remove_all(path("out"));
  }
  ASSERT_TRUE(under_lockstep_run(2, train({"parallel.shard_optimizer=true"})).status.ok());

  const Workbench bench;
  const std::string plugins = "plugins=[" LOCKSTEP_FAILING_PLUGIN "]";
  const auto ran = run_program(bench.train({plugins, "model.name=means", "loss.name=failing_loss", "train.epochs=1"}));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto ours = plugin_result_in(bench.work_dir())["params_sha256"];
  std::filesystem::remove_all(bench.work_dir());
  ASSERT_TRUE(run_program(bench.train({plugins, "model.name=means", "train.epochs=1"})).status.ok());
  EXPECT_EQ(plugin_result_in(bench.work_dir())["params_sha256"], ours);
}

TEST_F(Plugins, AnEndIsAnEndForOnesThatKeepReferences) {
  const auto ran = under_lockstep_run(2, train());
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  const auto again = under_lockstep_run(2, train({"train.epochs=3", "checkpoint.allow_changes=[train.epochs]"}));
  EXPECT_TRUE(again.status.ok()) << again.err;
}

TEST_F(Plugins, OptionsThatCannotBeDescribedAreThoseOfAPart) {
  for (const auto& words : {train(), train({"--dry-run"}), train({"--help-keys"})}) {
    const auto ran = run_program(words, {{"LOCKSTEP_TEST_DESCRIBE", "fails"}});
    EXPECT_EQ(ran.status.code, 1) << ran.err;
    EXPECT_THAT(ran.err,
                AllOf(HasSubstr("libfailing_plugin.so, "), HasSubstr(" failing_"), HasSubstr("broken in describe")));
  }
}

TEST_F(Plugins, WhatThrowsEndsAllRanksWithItsNameAndReason) {
  for (const auto& [key, part, reason] :
       {std::tuple{"model.fails=make", "model failing_net", "broken in make"},
        {"model.fails=forward", "task failing_squares", "broken in forward"},
        {"data.fails=load", "data set failing_line", "broken in load"},
        {"data.fails=size", "data set failing_line", "broken in size"},
        {"data.fails=get", "data set failing_line", "broken in get"},
        {"data.fails='get by a number'", "data set failing_line", "not a std::exception"},
        {"data.fails=collate", "data set failing_line", "broken in collate"},
        {"task={name: failing_squares, fails: task}", "task failing_squares", "broken in task"},
        {"task={name: failing_squares, fails: run}", "task failing_squares", "broken in run"},
        {"task={name: failing_squares, fails: metrics}", "task failing_squares", "broken in metrics"},
        {"task={name: failing_squares, fails: run by a number}", "task failing_squares", "not a std::exception"},
        {"optimizer.fails=optimizer", "optimizer dragged", "broken in optimizer"},
        {"optimizer.fails=nothing", "dragged", "nullptr"},
        {"scheduler.fails=schedule", "schedule halved", "broken in schedule"},
        {"scheduler.fails=rate", "schedule halved", "broken in rate"},
        {"scheduler.fails=negative", "scheduler", "the learning rate -1"},
        {"metrics=[failing_largest: {fails: metric}]", "libfailing_plugin.so, metric failing_largest",
         "broken in metric"},
        {"metrics=[failing_largest: {fails: measure}]", "libfailing_plugin.so, metric failing_largest",
         "broken in measure"},
        {"metrics=[failing_largest: {fails: values by a number}]", "libfailing_plugin.so, metric failing_largest",
         "not a std::exception"},
        {"data.train_transforms=[failing_step: {fails: transform}]", "libfailing_plugin.so, transform failing_step",
         "broken in transform"},
        {"data.train_transforms=[failing_step: {fails: options}]", "libfailing_plugin.so, transform failing_step",
         "do not go together"},
        {"data.train_transforms=[failing_step: {fails: step}]", "libfailing_plugin.so, transform failing_step",
         "broken in step"},
        {"callbacks.use=[failing_watcher: {fails: callback}]", "libfailing_plugin.so, callback failing_watcher",
         "broken in callback"},
        {"callbacks.use=[failing_watcher: {fails: check}]", "libfailing_plugin.so, callback failing_watcher",
         "broken in check"},
        {"callbacks.use=[failing_watcher: {fails: after a step}]", "libfailing_plugin.so, callback failing_watcher",
         "broken in after a step"},
        {"parallel.wrapper={type: failing_wrapper, fails: settings}", "libfailing_plugin.so, wrapper failing_wrapper",
         "broken in settings"},
        {"parallel.wrapper={type: failing_wrapper, fails: place}", "libfailing_plugin.so, wrapper failing_wrapper",
         "broken in place"},
        {"parallel.wrapper={type: failing_wrapper, fails: wrap}", "libfailing_plugin.so, wrapper failing_wrapper",
         "broken in wrap"}}) {
    const auto ran = under_lockstep_run(2, train({key}));
    const bool is_usage = std::string_view(reason) == "nullptr" || std::string_view(reason) == "do not go together";
    EXPECT_EQ(ran.status.code, is_usage ? 2 : 1) << key << ran.err;
    EXPECT_THAT(ran.err, AllOf(HasSubstr(part), HasSubstr(reason))) << key;
  }
}

TEST_F(Plugins, AnEntryThatThrowsIsNamed) {
  for (const auto& [how, reason] : {std::pair{"throws", "no parts today"},
                                    {"throws a number", "not a std::exception"},
                                    {"without make", "'without make' of models has no function `make`"},
                                    {"resnet18", "adds 'resnet18' to models, which Lockstep"},
                                    {"failing_net", "adds 'failing_net' to models, which libfailing_plugin.so"}}) {
    const auto ran = run_program(train(), {{"LOCKSTEP_TEST_ENTRY", how}});
    EXPECT_EQ(ran.status.code, 2) << how;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("libfailing_plugin.so"), HasSubstr(reason), HasSubstr("run.yaml:1"))) << how;
  }
}

TEST_F(Plugins, OtherVersionsAreRefusedBeforeAnythingRuns) {
  const std::string magic = std::string("lockstep plugin 1") + std::string(7, '\0');
  const std::string version = LOCKSTEP_VERSION;
  EXPECT_THAT(refusal_of(patched(magic + version, magic + "9" + version.substr(1))),
              AllOf(HasSubstr("built with Lockstep 9" + version.substr(1)), HasSubstr("this is Lockstep " + version)));
  const auto bytes = read_file(LOCKSTEP_FAILING_PLUGIN);
  const std::string torch = bytes.data() + bytes.find(magic) + 24 + 32;  // as PluginMark has it
  ASSERT_FALSE(torch.empty());
  const std::string padding(32 - version.size(), '\0');
  EXPECT_THAT(refusal_of(patched(magic + version + padding + torch, magic + version + padding + "9" + torch.substr(1))),
              AllOf(HasSubstr("built with libtorch 9" + torch.substr(1)), HasSubstr("libtorch " + torch)));
}

TEST_F(Plugins, WhatIsNoPluginIsRefused) {
  write_file(path("words.so"), "these are words\n");
  write_file(path("empty.so"), "");
  std::filesystem::create_directory(path("folder.so"));
  EXPECT_THAT(refusal_of("no_such.so"), AllOf(HasSubstr("no_such.so"), HasSubstr("No such file")));
  EXPECT_THAT(refusal_of(path("words.so")), HasSubstr("no ELF file"));
  EXPECT_THAT(refusal_of(path("empty.so")), HasSubstr("no ELF file"));
  EXPECT_THAT(refusal_of(path("folder.so")), HasSubstr("is a folder"));
  EXPECT_THAT(refusal_of("/dev/zero"), HasSubstr("is no regular file"));
  EXPECT_THAT(refusal_of(LOCKSTEP_BINARY), HasSubstr("<lockstep/train/plugin.h>"));
  EXPECT_THAT(refusal_of(patched("lockstep_plugin", "lockstep_plugim")),
              AllOf(HasSubstr("libpatched.so"), HasSubstr("plugin.h")));
  EXPECT_THAT(refusal_of(LOCKSTEP_LIBRARY), HasSubstr("does not export void lockstep_plugin("));
  EXPECT_THAT(refusal_of(LOCKSTEP_UNRESOLVED_PLUGIN), HasSubstr("lockstep_test::function_of_nobody(int)"));
  EXPECT_THAT(run_program(train({"plugins=[" LOCKSTEP_FAILING_PLUGIN ", " LOCKSTEP_FAILING_PLUGIN "]"})).err,
              HasSubstr("is named twice; remove one of them"));
  EXPECT_THAT(run_program(train({"plugins=libmine.so"})).err, HasSubstr("expected a list"));
}

TEST_F(Plugins, ADamagedFileIsRefused) {
  const auto whole = read_file(LOCKSTEP_FAILING_PLUGIN);
  for (const double share : {0.0001, 0.001, 0.1, 0.5, 0.9, 0.9999}) {
    write_file(path("cut.so"), whole.substr(0, static_cast<std::size_t>(share * static_cast<double>(whole.size()))));
    EXPECT_THAT(refusal_of(path("cut.so")), HasSubstr("cut.so")) << share;
  }
}

}  // namespace
}  // namespace lockstep::test
