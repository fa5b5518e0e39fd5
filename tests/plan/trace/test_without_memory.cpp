// What is planned takes no memory for numbers.
#include <lockstep/compat/global_device.h>
#include <lockstep/models/gpt.h>
#include <lockstep/plan/trace/trace_step.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <string>

namespace lockstep::plan {
namespace {

/// The most memory that this process ever held, in MB.
double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    double kilobytes = 0;
    status >> kilobytes;
    return kilobytes / 1e3;
  }
  return 0;
}

TEST(WithoutMemory, LargeTensorsAreWithoutMemoryAndSmallOnesAreOrdinary) {
  {
    const WithoutMemory scope;
    const auto large = torch::empty({1 << 20, 1 << 20});
    EXPECT_EQ(large.device().type(), lockstep::compat::kGlobalDevice);
    EXPECT_EQ(large.t().numel(), std::int64_t{1} << 40);
    EXPECT_TRUE(torch::zeros({4}).device().is_cpu());
    EXPECT_EQ(torch::tensor(3).item<int>(), 3);
  }
  EXPECT_TRUE(torch::empty({1 << 16}).device().is_cpu());
}

TEST(WithoutMemory, AGptOfSevenBillionParametersIsTracedInLessThan200MB) {
  torch::mm(torch::ones({8, 8}), torch::ones({8, 8}));  // the library loads the rest of itself
  const double before = peak_mb();
  const models::GptShape shape{
      .vocabulary = 32000, .context = 2048, .layers = 32, .heads = 32, .width = 4096, .tied_head = false};
  const auto model = [&] {
    const WithoutMemory scope;
    return models::gpt(shape);
  }();
  std::int64_t parameters = 0;
  for (const auto& each : model->parameters()) parameters += each.numel();
  EXPECT_GT(parameters, 6'600'000'000);
  const auto graph = trace_step(
      {.module = model.get(),
       .inputs = {{"tokens", {8, 2048}, torch::kLong}, {"next", {8, 2048}, torch::kLong}},
       .loss = [&](const auto& in) { return torch::cross_entropy_loss(model->forward(in[0]).transpose(1, 2), in[1]); },
       .optimizer = [](auto of) { return std::make_unique<torch::optim::AdamW>(of); }});
  EXPECT_GT(graph.nodes.size(), 32U * 100);
  EXPECT_LT(peak_mb() - before, 200);
  RecordProperty("peak_mb", std::to_string(peak_mb() - before));
}

}  // namespace
}  // namespace lockstep::plan
