#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/parse.h>
#include <lockstep/cli/plan_gpt.h>
#include <lockstep/models/gpt.h>
#include <lockstep/plan/trace/trace_step.h>
#include <lockstep/plan/trace/without_memory.h>

#include <torch/torch.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

namespace lockstep::cli {
namespace {

struct GptStep {
  models::GptShape shape{
      .vocabulary = 50304, .context = 1024, .layers = 12, .heads = 12, .width = 768, .dropout = 0, .tied_head = false};
  std::int64_t batch = 64;
};

GptStep read_gpt(std::string_view text) {
  GptStep step;
  const std::map<std::string, std::int64_t*, std::less<>> fields{
      {"layers", &step.shape.layers},   {"width", &step.shape.width},           {"heads", &step.shape.heads},
      {"context", &step.shape.context}, {"vocabulary", &step.shape.vocabulary}, {"batch", &step.batch}};
  std::vector<std::string> names;
  names.reserve(fields.size());
  for (const auto& [name, value] : fields) names.push_back(name);
  while (!text.empty()) {
    const auto item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const auto equals = item.find('=');
    const auto name = item.substr(0, equals);
    const auto field = fields.find(name);
    const std::int64_t value =
        equals == std::string_view::npos ? 0 : parse_integer(item.substr(equals + 1)).value_or(0);
    if (field == fields.end() || value < 1) {
      fail(ErrorKind::invalid_argument, "plan", "--gpt takes NAME=NUMBER,... with names {}; got '{}'{}",
           fmt::join(names, ", "), item, field == fields.end() ? did_you_mean(name, names) : "");
    }
    *field->second = value;
  }
  return step;
}

std::shared_ptr<models::Gpt> gpt_without_memory(const models::GptShape& shape) {
  const plan::WithoutMemory scope;
  return models::gpt(shape);
}

}  // namespace

train::PlannedStep trace_gpt(std::string_view text) {
  const auto start = std::chrono::steady_clock::now();
  const auto gpt = read_gpt(text);
  const auto model = gpt_without_memory(gpt.shape);
  const std::vector<std::int64_t> sizes{gpt.batch, gpt.shape.context};
  train::PlannedStep step;
  step.graph = plan::trace_step(
      {.module = model.get(),
       .inputs = {{.name = "tokens", .sizes = sizes, .dtype = torch::kLong},
                  {.name = "next", .sizes = sizes, .dtype = torch::kLong}},
       .loss =
           [&](const std::vector<at::Tensor>& in) {
             const auto logits = model->forward(in[0]);
             return torch::cross_entropy_loss(logits.flatten(0, 1), in[1].flatten());
           },
       .optimizer = [](const std::vector<at::Tensor>& parameters) -> std::unique_ptr<torch::optim::Optimizer> {
         return std::make_unique<torch::optim::AdamW>(parameters);
       }});
  step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return step;
}

}  // namespace lockstep::cli
