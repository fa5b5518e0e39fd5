// What people and files get to see: lines, bar, metrics, curve.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/output/loss_curve.h>
#include <lockstep/train/output/run_files.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/expect_error.h"
#include "support/forks.h"
#include "support/read_file.h"
#include "train/still_run.h"

namespace lockstep::train {
namespace {

using test::expect_words;
using test::read_file;

StepReport step_report(std::int64_t step, double loss) {
  return {.epoch = (step - 1) / 10 + 1,
          .epochs = 3,
          .step_in_epoch = (step - 1) % 10 + 1,
          .steps_per_epoch = 10,
          .step = step,
          .total_steps = 30,
          .local_loss = loss,
          .loss = loss,
          .lr = 0.5,
          .samples = 64,
          .seconds = 0.25};
}

TEST(LossLog, PrintsTheLossOfTheJobWhereItIsKnown) {
  Console console(true, ProgressStyle::off);
  test::StillRun run;
  LossLog log(console, 1);
  testing::internal::CaptureStdout();
  auto report = step_report(1, 1.5);
  report.local_loss = 7;
  log.after_step(run, report);
  report.loss.reset();
  log.after_step(run, report);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "epoch: 1 step: 1, loss is 1.5\nepoch: 1 step: 1, loss is 7.0\n");
}

TEST(LossLine, IsWrittenAsTheReferenceDoes) {
  EXPECT_EQ(loss_line(1, 1, 2.3025854f), "epoch: 1 step: 1, loss is 2.3025854");
  EXPECT_EQ(loss_line(12, 195, 0.5), "epoch: 12 step: 195, loss is 0.5");
  EXPECT_EQ(loss_line(1, 2, 2.0), "epoch: 1 step: 2, loss is 2.0");
  EXPECT_EQ(loss_line(1, 2, 1e-9), "epoch: 1 step: 2, loss is 1e-09");
}

TEST(LossLog, PrintsEachNthStepOfAnEpochOnStdout) {
  Console console(true, ProgressStyle::off);
  test::StillRun run;
  LossLog log(console, 5);
  testing::internal::CaptureStdout();
  for (std::int64_t step = 1; step <= 12; ++step) log.after_step(run, step_report(step, 1.5));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "epoch: 1 step: 5, loss is 1.5\nepoch: 1 step: 10, loss is 1.5\n");
}

TEST(LossLog, UnlessToldPrintsTheFirstStepOfTheRunAndATenthOfTheOthers) {
  Console console(true, ProgressStyle::off);
  test::StillRun run;
  LossLog log(console, std::nullopt);
  testing::internal::CaptureStdout();
  for (std::int64_t step = 1; step <= 120; ++step) {
    auto report = step_report(step, 1.5);
    report.epoch = 1 + (step - 1) / 60;
    report.step_in_epoch = 1 + (step - 1) % 60;
    report.steps_per_epoch = 60;
    log.after_step(run, report);
  }
  const auto said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 21);
  EXPECT_TRUE(said.starts_with("epoch: 1 step: 1, loss is 1.5\nepoch: 1 step: 6, loss is 1.5\n")) << said;
  EXPECT_TRUE(said.ends_with("epoch: 2 step: 60, loss is 1.5\n")) << said;
}

TEST(LossLog, SaysNothingForAStepWhoseLossIsNotKnown) {
  Console console(true, ProgressStyle::off);
  test::StillRun run;
  LossLog log(console, 1);
  auto report = step_report(1, 1.5);
  report.local_loss.reset();
  report.loss.reset();
  testing::internal::CaptureStdout();
  log.after_step(run, report);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Console, ThatIsNotShownIsSilent) {
  testing::internal::CaptureStdout();
  {
    Console console(false, ProgressStyle::bar);
    console.line("one");
    console.progress("two");
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Console, KeepsTheBarBelowTheLines) {
  testing::internal::CaptureStdout();
  {
    Console console(true, ProgressStyle::bar);
    console.line("first");
    console.progress("10%");
    console.line("second");
    console.progress("20%");
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "first\n\r\x1b[K10%\r\x1b[Ksecond\n10%\r\x1b[K20%\n");
}

TEST(Console, CutsTheBarToTheTerminal) {
  testing::internal::CaptureStdout();
  {
    Console console(true, ProgressStyle::bar);
    console.progress(std::string(500, '='));
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), fmt::format("\r\x1b[K{:=>79}\n", ""));
}

TEST(Console, DrawsTheBarOnATerminalAsWideAsItIs) {
  test::fork_ranks(1, {}, [](int) {
    int terminal = -1, shell = -1;
    winsize size{};
    size.ws_col = 20;
    size.ws_row = 5;
    ASSERT_EQ(::openpty(&terminal, &shell, nullptr, nullptr, &size), 0);
    ASSERT_GE(::dup2(shell, STDOUT_FILENO), 0);
    ::setenv("TERM", "xterm", 1);
    EXPECT_FALSE(stdout_is_terminal()) << "some program reads it, and perhaps no person";
    ASSERT_EQ(::setpgid(0, ::getpgid(::getppid())), 0) << "the leader of a process group cannot begin a session";
    ASSERT_GE(::setsid(), 0);
    ASSERT_EQ(::ioctl(shell, TIOCSCTTY, 0), 0);
    ASSERT_TRUE(stdout_is_terminal());
    ::setenv("TERM", "dumb", 1);
    EXPECT_FALSE(stdout_is_terminal());
    ::setenv("TERM", "xterm", 1);
    Console console(true, progress_style("auto", stdout_is_terminal()));
    console.progress(std::string(500, '='));
    std::array<char, 1000> bytes{};
    const auto count = ::read(terminal, bytes.data(), bytes.size());
    EXPECT_EQ(std::string_view(bytes.data(), static_cast<std::size_t>(count)), "\r\x1b[K===================");
  });
}

TEST(Console, StyleOfProgress) {
  EXPECT_EQ(progress_style("auto", true), ProgressStyle::bar);
  EXPECT_EQ(progress_style("auto", false), ProgressStyle::off);
  EXPECT_EQ(progress_style("on", true), ProgressStyle::bar);
  EXPECT_EQ(progress_style("on", false), ProgressStyle::lines);
  EXPECT_EQ(progress_style("off", true), ProgressStyle::off);
}

TEST(Progress, Text) {
  EXPECT_EQ(progress_text(step_report(15, 1.25), 0.5),
            "epoch 2/3 [============>           ]  50% step 5/10 loss 1.2500 128 samples/s 0:08 left");
  EXPECT_EQ(progress_text(step_report(30, 1.25), 0.5),
            "epoch 3/3 [========================] 100% step 10/10 loss 1.2500 128 samples/s 0:00 left");
}

TEST(Progress, Clock) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(41.2), "0:42");
  EXPECT_EQ(clock_text(725), "12:05");
  EXPECT_EQ(clock_text(11229), "3:07:09");
}

TEST(EpochLog, TimeThroughputAndEvaluation) {
  Console console(true, ProgressStyle::off);
  test::StillRun run;
  EpochLog log(console);
  testing::internal::CaptureStdout();
  log.after_epoch(run, {.epoch = 2, .epochs = 3, .steps = 10, .samples = 640, .seconds = 2.5});
  log.after_evaluation(
      run, {.epoch = 2, .step = 20, .loss = 0.125, .metrics = {{"accuracy", 0.975}}, .samples = 1000, .seconds = 0.5});
  log.after_evaluation(run, {.epoch = 3, .loss = 0.5, .samples = 10, .weights = "the average of the weights (ema)"});
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "epoch 2/3: 10 steps in 2.5 s, 250.0 ms a step, 256.0 samples/s, lr 0.5\n"
            "evaluation after epoch 2: accuracy 0.9750, loss 0.1250 (1000 samples in 0.5 s)\n"
            "evaluation after epoch 3: loss 0.5000 with the average of the weights (ema) (10 samples in 0.0 s)\n");
}

TEST(Metrics, OneObjectALineWithTheRateSinceTheLineBefore) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  test::StillRun run;
  MetricsFile metrics(file, 2, 0);
  for (std::int64_t step = 1; step <= 4; ++step)
    metrics.after_step(run, step_report(step, 0.5 * static_cast<double>(step)));
  EXPECT_EQ(read_file(file),
            "{\"epoch\":1,\"step\":2,\"loss\":1.0,\"lr\":0.5,\"samples_per_s\":256.0}\n"
            "{\"epoch\":1,\"step\":4,\"loss\":2.0,\"lr\":0.5,\"samples_per_s\":256.0}\n");
}

TEST(Metrics, GoOnWithoutWhatHasToBeDoneAgain) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  {
    test::StillRun run;
    MetricsFile metrics(file, 1, 0);
    for (std::int64_t step = 1; step <= 5; ++step) metrics.after_step(run, step_report(step, 1));
  }
  std::ofstream(file, std::ios::app) << "{\"epoch\":1,\"step\":6,\"lo";  // as a killed process leaves it
  {
    test::StillRun run;
    MetricsFile metrics(file, 1, 3);
    metrics.after_step(run, step_report(4, 2));
  }
  const auto lines = read_metrics(file);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2].step, 3);
  EXPECT_EQ(lines[2].loss, 1);
  EXPECT_EQ(lines[3].step, 4);
  EXPECT_EQ(lines[3].loss, 2);
}

TEST(Metrics, GetTheLineThatWasNotWrittenInTime) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  const auto steps_after = [&](std::int64_t every, std::int64_t steps_done, std::int64_t logged) {
    test::StillRun run;
    MetricsFile(file, every, steps_done, step_report(logged, 7)).before_run(run);
    std::vector<std::int64_t> steps;
    for (const auto& line : read_metrics(file)) steps.push_back(line.step);
    return steps;
  };
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(steps_after(2, 2, 2), (Steps{2})) << "the first";
  EXPECT_EQ(steps_after(2, 5, 4), (Steps{2, 4}));
  EXPECT_EQ(steps_after(2, 5, 4), (Steps{2, 4})) << "it is there";
  EXPECT_EQ(steps_after(2, 8, 8), (Steps{2, 4})) << "a line is missing: of another file, or of other settings";
  EXPECT_EQ(read_metrics(file).back().loss, 7);
}

// Output that only informs ends no run: what is in its way is said once, and lines follow when it is gone.
TEST(Metrics, WhatCannotBeWrittenIsSaidOnceAndTriedAgain) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  std::filesystem::create_directory(file);
  test::StillRun run;
  MetricsFile metrics(file, 1, 0);
  metrics.before_run(run);
  for (std::int64_t step = 1; step <= 3; ++step) metrics.after_step(run, step_report(step, 1));
  ASSERT_EQ(run.told.size(), 1u);
  test::expect_words(run.told.front(), {"warning: training goes on without metrics.jsonl", file.string()});
  std::filesystem::remove(file);
  for (std::int64_t step = 4; step <= 5; ++step) metrics.after_step(run, step_report(step, 1));
  ASSERT_EQ(run.told.size(), 2u);
  EXPECT_EQ(run.told.back(), "metrics.jsonl is written again");
  EXPECT_EQ(read_metrics(file).size(), 2u);
}

TEST(Metrics, APipeThatNobodyReadsIsNotWaitedFor) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  test::StillRun run;
  MetricsFile metrics(file, 1, 0);
  metrics.before_run(run);
  metrics.after_step(run, step_report(1, 1));
  LossCurve(file, folder.path() / "loss.svg", "curve", {}).after_run(run);
  EXPECT_EQ(run.told.size(), 1u);
}

TEST(Axis, RoundTicks) {
  const auto axis = make_axis(0.13, 2.41, 6, true);
  EXPECT_EQ(axis.low, 0.0);
  EXPECT_EQ(axis.high, 2.5);
  EXPECT_EQ(axis.ticks, (std::vector<double>{0, 0.5, 1, 1.5, 2, 2.5}));
  const auto exact = make_axis(1, 234, 8, false);
  EXPECT_EQ(exact.low, 1);
  EXPECT_EQ(exact.high, 234);
  EXPECT_EQ(exact.ticks, (std::vector<double>{50, 100, 150, 200}));
  const auto point = make_axis(5, 5, 4, true);
  EXPECT_LT(point.low, 5);
  EXPECT_GT(point.high, 5);
  EXPECT_EQ(tick_text(0.25), "0.25");
  EXPECT_EQ(tick_text(0), "0");
  EXPECT_EQ(tick_text(20000), "20k");
}

std::vector<MetricsLine> some_lines(std::int64_t count) {
  std::vector<MetricsLine> lines;
  for (std::int64_t step = 1; step <= count; ++step) lines.push_back({(step - 1) / 100 + 1, step, 2.5, 0.1, 100});
  return lines;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(LossCurve, HasAxesEpochsCurvesAndEvaluations) {
  const auto svg =
      draw_loss_curve(some_lines(250), std::vector<Evaluation>{{.epoch = 1, .step = 100, .loss = 2.25}}, "a < b & c");
  expect_words(svg, {"<svg ", "</svg>", "a &lt; b &amp; c", ">step<", ">loss<", ">epoch 2<", ">epoch 3<", ">smoothed<",
                     ">evaluation<"});
  EXPECT_EQ(count_of(svg, "<polyline"), 2u);
  EXPECT_EQ(count_of(svg, "<circle"), 2u);  // one evaluation and its sample in the legend
  EXPECT_EQ(count_of(svg, "nan"), 0u);
}

// The points of the line of this colour, in pixels.
std::vector<std::pair<double, double>> line_in(const std::string& svg, const std::string& color) {
  const auto line =
      svg.find("stroke=\"" + color + "\" stroke-width=\"" + (color == "#1f5fa8" ? "2" : "1") + "\" stroke-linejoin");
  EXPECT_NE(line, std::string::npos) << color;
  const auto begin = svg.find("points=\"", line) + 8;
  std::istringstream numbers(svg.substr(begin, svg.find('"', begin) - begin));
  std::vector<std::pair<double, double>> points;
  double x = 0, y = 0;
  for (char comma = 0; numbers >> x >> comma >> y;) points.emplace_back(x, y);
  return points;
}

constexpr const char* kEachStep = "#a9c4e6";
constexpr const char* kSmoothed = "#1f5fa8";

// A mean over what came before stays above a loss that falls, most of all at the start.
TEST(LossCurve, TheSmoothedLineDoesNotLag) {
  auto lines = some_lines(600);
  for (auto& line : lines) line.loss = 7.0 - 0.01 * static_cast<double>(line.step);
  const auto straight = draw_loss_curve(lines, {}, "straight");
  const auto as_it_is = line_in(straight, kEachStep);
  const auto mean = line_in(straight, kSmoothed);
  ASSERT_EQ(as_it_is.size(), 600u);
  ASSERT_EQ(mean.size(), 600u);
  for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i].second, as_it_is[i].second, 0.11) << i;

  // Falling as losses do, from 2.3 to 0.3 within the first fifth: never further off than 3 of 358 pixels.
  for (auto& line : lines) line.loss = 0.3 + 2.0 * std::exp(-static_cast<double>(line.step) / 40);
  const auto falling = draw_loss_curve(lines, {}, "falling");
  const auto each = line_in(falling, kEachStep);
  const auto smoothed = line_in(falling, kSmoothed);
  ASSERT_EQ(each.size(), 600u);
  ASSERT_EQ(smoothed.size(), 600u);
  for (std::size_t i = 0; i < each.size(); ++i) EXPECT_NEAR(smoothed[i].second, each[i].second, 3) << i;
}

TEST(LossCurve, TheSmoothedLineIsTheMeanOfBothSides) {
  auto lines = some_lines(600);
  for (auto& line : lines) line.loss = line.step % 2 == 0 ? 3.0 : 2.0;
  const auto points = line_in(draw_loss_curve(lines, {}, "zigzag"), kSmoothed);
  ASSERT_EQ(points.size(), 600u);
  const double middle = points[300].second;
  // Means of 21 values between 2 and 3 are within 0.5 / 21 of their middle.
  for (std::size_t i = 20; i < 580; ++i) EXPECT_NEAR(points[i].second, middle, 1.0 / 21 * 358) << i;
}

TEST(LossCurve, HasAMetricBelowTheLoss) {
  const std::vector<Evaluation> evaluations{{.epoch = 1, .step = 100, .loss = 2.25, .metrics = {{"accuracy", 0.5}}},
                                            {.epoch = 2, .step = 200, .loss = 2, .metrics = {{"accuracy", 0.75}}}};
  const auto svg = draw_loss_curve(some_lines(250), evaluations, "both");
  expect_words(svg, {">loss<", ">accuracy<", "height=\"660\""});
  EXPECT_EQ(count_of(svg, "<polyline"), 3u);
  EXPECT_EQ(draw_loss_curve(some_lines(250), {}, "one").find("accuracy"), std::string::npos);
}

TEST(LossCurve, HasALogarithmicAxisWhereItHelps) {
  auto lines = some_lines(600);
  for (auto& line : lines) line.loss = std::pow(10.0, 2.0 - static_cast<double>(line.step) / 150);
  const auto svg = draw_loss_curve(lines, {}, "decades");
  expect_words(svg, {">100<", ">10<", ">1<", ">0.1<", ">0.01<"});
  // A straight line: every hundredth step is as far below the one before.
  const auto points = line_in(svg, kEachStep);
  ASSERT_EQ(points.size(), 600u);
  EXPECT_NEAR(points[100].second - points[0].second, points[599].second - points[499].second, 0.3);
}

TEST(LossCurve, StaysSmallForLongRuns) { EXPECT_LT(draw_loss_curve(some_lines(100000), {}, "long").size(), 60000u); }

TEST(LossCurve, OneStepAndNone) {
  EXPECT_EQ(count_of(draw_loss_curve(some_lines(1), {}, "one"), "nan"), 0u);
  expect_words(draw_loss_curve({}, {}, "none"), {"<svg ", "no step was logged"});
}

}  // namespace
}  // namespace lockstep::train
