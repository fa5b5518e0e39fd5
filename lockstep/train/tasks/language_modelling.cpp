#include <lockstep/base/error.h>
#include <lockstep/models/gpt.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/tasks/language_modelling.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::train {
namespace {

models::Gpt& gpt_of(torch::nn::Module& model) {
  auto* gpt = dynamic_cast<models::Gpt*>(&model);
  if (gpt != nullptr) return *gpt;
  fail(ErrorKind::config, "task.name", "language_modelling is for model.name gpt, and the model is another");
}

// On one line, as a log wants it.
std::string printable(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    const bool shows = static_cast<unsigned char>(letter) >= 0x20 && static_cast<unsigned char>(letter) < 0x7f;
    out += letter == '\n' ? "\\n" : shows ? std::string(1, letter) : "?";
  }
  return out;
}

class LanguageModelling final : public Task {
 public:
  explicit LanguageModelling(LanguageOptions options) : options_(std::move(options)) {}

  Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    const auto& next = batch[samples::kNext];
    const auto logits = gpt_of(model).forward(batch[samples::kTokens]);
    Outcome outcome{.loss = torch::cross_entropy_loss(logits.flatten(0, 1), next.flatten())};
    if (measures) outcome.sums.emplace("accuracy", sum_of(logits.argmax(-1) == next));
    return outcome;
  }

  Values metrics(const Sums& sums) const override {
    auto values = Task::metrics(sums);
    const auto& loss = sums.at("loss");
    values.emplace("perplexity", std::exp(loss.sum / loss.count));
    return values;
  }

  samples::Tensors predict(torch::nn::Module& model, const samples::Batch& batch) override {
    return {{"logits", gpt_of(model).forward(batch[samples::kTokens])}};
  }

  std::string show(torch::nn::Module& model, const Place& place) override {
    if (options_.sample_bytes == 0 || options_.prompt.empty()) return "";
    auto& gpt = gpt_of(model);
    std::vector<std::int64_t> tokens;
    for (const unsigned char byte : options_.prompt) tokens.push_back(byte % gpt.shape().vocabulary);
    for (std::int64_t i = 0; i < options_.sample_bytes; ++i) {
      // As long as the context, so that each pass has the same shape: what comes later does not change what is earlier.
      const auto context = gpt.shape().context;
      const auto seen = std::min<std::int64_t>(context, static_cast<std::int64_t>(tokens.size()));
      auto window = torch::zeros({1, context}, torch::kLong);
      for (std::int64_t t = 0; t < seen; ++t) window[0][t] = tokens[tokens.size() - static_cast<std::size_t>(seen - t)];
      const auto logits = gpt.forward(place(window)).select(1, seen - 1);
      tokens.push_back(logits.argmax(-1).select(0, 0).item<std::int64_t>());
    }
    std::string text;
    for (const auto token : tokens) text += token < 256 ? static_cast<char>(token) : '?';
    return "a sample: " + printable(text);
  }

 private:
  LanguageOptions options_;
};

}  // namespace

void describe(ConfigFields& fields, LanguageOptions& options) {
  fields.field("prompt", options.prompt, anything(), "the beginning of the sample that each evaluation shows");
  fields.field("sample_bytes", options.sample_bytes, between(0, 100000),
               "tokens that the model adds to it; 0: no sample");
}

std::shared_ptr<Task> make_language_modelling(const LanguageOptions& options) {
  return std::make_shared<LanguageModelling>(options);
}

}  // namespace lockstep::train
