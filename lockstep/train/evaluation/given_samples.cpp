// A data set of picture files named on a command line, after the evaluation transforms of the configuration.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/data/files/token_file.h>
#include <lockstep/models/gpt.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/evaluation/given_samples.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/resources/run_data.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace lockstep::train {
namespace {

std::shared_ptr<const samples::Dataset> prepared(const ResolvedRun& config,
                                                 std::shared_ptr<const samples::Dataset> pictures) {
  return samples::transformed(std::move(pictures), transforms_of(config, data::Split::test));
}

constexpr const char* kPromptKey = "prompt";
constexpr std::int64_t kBytes = 256;

class Prompts final : public samples::Dataset {
 public:
  Prompts(std::vector<Prompt> prompts, std::int64_t context) : prompts_(std::move(prompts)), context_(context) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(prompts_.size()); }

  samples::Sample get(std::int64_t index, const samples::Chance& /*chance*/) const override {
    const auto& tokens = prompts_[static_cast<std::size_t>(index)].tokens;
    const auto seen = std::min(context_, static_cast<std::int64_t>(tokens.size()));
    auto window = at::zeros({context_}, at::kLong);
    std::copy(tokens.end() - seen, tokens.end(), window.data_ptr<std::int64_t>());
    return {.tensors = {{samples::kTokens, window},
                        {samples::kLengths, at::scalar_tensor(seen, at::kLong)},
                        {samples::kNumbers, at::scalar_tensor(index, at::kLong)}}};
  }

  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return {{kPromptKey, prompts_[static_cast<std::size_t>(index)].shown}};
  }

 private:
  std::vector<Prompt> prompts_;
  std::int64_t context_;
};

models::GptShape shape_of(const ResolvedRun& config) {
  if (config.has_own_model || config.model.name != "gpt") {
    fail(ErrorKind::config, "model.name", "is {}, and prompts are for language models, model.name gpt",
         config.model.name);
  }
  const auto& part = part_named(config.parts->models, config.model.name, "model.name");
  return options_of(config.model, part).as<models::GptShape>();
}

}  // namespace

std::shared_ptr<const samples::Dataset> given_pictures(const ResolvedRun& config, const std::filesystem::path& path,
                                                       const samples::PictureFilesOptions& options) {
  return prepared(config, samples::load_picture_files(path, options));
}

std::shared_ptr<const samples::Dataset> listed_pictures(const ResolvedRun& config, std::vector<std::string> files,
                                                        bool skips) {
  return prepared(config, samples::listed_picture_files(std::move(files), skips));
}

Prompt prompt_of(std::string text) {
  auto tokens = data::byte_tokens(text);
  return {std::move(text), std::move(tokens)};
}

Prompt prompt_in(std::string_view line, bool is_json) {
  if (!is_json) return prompt_of(std::string(line));
  auto tokens = data::json_tokens(line, kPromptKey);  // its errors describe the problem
  const auto json = nlohmann::json::parse(line);
  const auto& prompt = json.at(kPromptKey);
  return {prompt.is_string() ? prompt.get<std::string>() : prompt.dump(), std::move(tokens)};
}

std::shared_ptr<const samples::Dataset> given_prompts(const ResolvedRun& config, std::vector<Prompt> prompts) {
  const auto shape = shape_of(config);
  if (prompts.empty()) fail(ErrorKind::invalid_argument, "prompts", "there is no prompt; give at least one");
  std::int64_t cut = 0;
  for (const auto& prompt : prompts) {
    if (prompt.tokens.empty()) {
      fail(ErrorKind::invalid_argument, "prompts", "a prompt is empty; a text begins with at least one token");
    }
    const auto largest = *std::ranges::max_element(prompt.tokens);
    if (largest >= shape.vocabulary) {
      fail(ErrorKind::invalid_argument, "prompts",
           "the prompt '{}' has the token {}, and model.vocabulary is {}: tokens are below it (of a text, each byte is "
           "a token)",
           cut_text(prompt.shown), largest, shape.vocabulary);
    }
    if (static_cast<std::int64_t>(prompt.tokens.size()) > shape.context) ++cut;
  }
  if (cut > 0) {
    log_warning("{} of {} prompts are longer than model.context, {} tokens; the model uses only their last tokens", cut,
                prompts.size(), shape.context);
  }
  if (shape.vocabulary > kBytes) {
    log_warning(
        "each byte of a prompt is taken for a token, and model.vocabulary is {}; where tokens are no bytes, give "
        "--prompts FILE.jsonl with lines {{\"prompt\": [12, 7]}}",
        shape.vocabulary);
  }
  return std::make_shared<Prompts>(std::move(prompts), shape.context);
}

}  // namespace lockstep::train
