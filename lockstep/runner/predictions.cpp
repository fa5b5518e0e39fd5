// The samples and predictions of a command line: data sets of the named picture files, after the evaluation transforms
// of the configuration, and of prompts; and the predictions of all samples as columns of CSV or as lines of JSON.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/data/files/token_file.h>
#include <lockstep/models/gpt.h>
#include <lockstep/runner/predictions.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/resources/run_data.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep::runner {
namespace {

std::shared_ptr<const samples::Dataset> prepared(const train::ResolvedRun& config,
                                                 std::shared_ptr<const samples::Dataset> pictures) {
  return samples::transformed(std::move(pictures), train::transforms_of(config, data::Split::test));
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

models::GptShape shape_of(const train::ResolvedRun& config) {
  if (config.has_own_model || config.model.name != "gpt") {
    fail(ErrorKind::config, "model.name", "is {}, and prompts are for language models, model.name gpt",
         config.model.name);
  }
  const auto& part = train::part_named(config.parts->models, config.model.name, "model.name");
  return train::options_of(config.model, part).as<models::GptShape>();
}

}  // namespace

std::shared_ptr<const samples::Dataset> given_pictures(const train::ResolvedRun& config,
                                                       const std::filesystem::path& path,
                                                       const samples::PictureFilesOptions& options) {
  return prepared(config, samples::load_picture_files(path, options));
}

std::shared_ptr<const samples::Dataset> listed_pictures(const train::ResolvedRun& config,
                                                        std::vector<std::string> files, bool skips) {
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

std::shared_ptr<const samples::Dataset> given_prompts(const train::ResolvedRun& config, std::vector<Prompt> prompts) {
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

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kClass = "class";
constexpr const char* kClassName = "class_name";
constexpr const char* kProbability = "probability";
constexpr const char* kLogits = "logits";
constexpr const char* kTop = "top";
constexpr const char* kLeftOut = "left_out";
constexpr std::int64_t kMostNumbers = 16;

Json number_at(const at::Tensor& row) {
  if (row.scalar_type() == at::kBool) return row.item<bool>();
  if (row.is_floating_point()) return row.item<double>();
  return row.item<std::int64_t>();
}

/// The values of one field of one sample; null: the values do not fit into a line.
Json values_at(const std::string& name, const at::Tensor& tensor, std::int64_t index) {
  const auto row = tensor[index].flatten();
  if (row.numel() == 1) return number_at(row[0]);
  const bool fits = row.numel() > 0 && row.numel() <= kMostNumbers;
  if (name == kLogits || !row.is_floating_point() || !fits) return nullptr;
  auto list = Json::array();
  for (std::int64_t i = 0; i < row.numel(); ++i) list.push_back(number_at(row[i]));
  return list;
}

class Lines {
 public:
  Lines(const train::Prediction& all, const LineOptions& options) : all_(all), options_(options) {
    find_said();
    const auto logits = all.tensors.find(kLogits);
    const bool has_classes = logits != all.tensors.end() && logits->second.dim() == 2 && all.tensors.contains(kClass);
    if (has_classes) {
      const auto classes = logits->second.size(1);
      probabilities_ = logits->second.to(torch::kFloat).softmax(1);
      const auto names = static_cast<std::int64_t>(options.classes.size());
      if (names > classes || (options.names_all && names != classes)) {
        fail(ErrorKind::invalid_argument, "predict", "there are {} names of classes, and the model has {} classes{}",
             names, classes, options.names_all ? "; --classes names all of them, one a line" : "");
      }
    }
    if (options.top > 0 && !has_classes) {
      fail(ErrorKind::invalid_argument, "predict",
           "--top is for models that distinguish classes; the task of this one gives no logits of classes");
    }
  }

  std::int64_t samples() const {
    if (!all_.known_as.empty()) return static_cast<std::int64_t>(all_.known_as.size());
    if (!all_.tensors.empty()) return all_.tensors.begin()->second.size(0);
    return all_.texts.empty() ? 0 : static_cast<std::int64_t>(all_.texts.begin()->second.size());
  }

  Json line(std::int64_t index) const {
    Json line{{"index", index}};
    if (!all_.known_as.empty()) {
      for (const auto& [name, value] : all_.known_as[static_cast<std::size_t>(index)]) {
        if (all_.left_out.contains(index) || !is_said(name)) line[free_name(name)] = value;
      }
    }
    if (const auto left_out = all_.left_out.find(index); left_out != all_.left_out.end()) {
      line[kLeftOut] = left_out->second;
      return line;
    }
    for (const auto& [name, tensor] : all_.tensors) {
      auto values = values_at(name, tensor, index);
      if (!values.is_null()) line[name] = std::move(values);
      if (name == kClass && line.contains(kClass) && line[kClass].is_number_integer()) {
        add_name(line, kClassName, line[kClass].get<std::int64_t>());
      }
    }
    if (options_.top > 0) line[kTop] = top_at(index);
    for (const auto& [name, texts] : all_.texts) line[name] = texts.at(static_cast<std::size_t>(index));
    return line;
  }

 private:
  bool is_said(const std::string& field) const { return said_.contains(field); }

  /// Fields that the task predicts for each sample, perhaps under another name.
  void find_said() {
    const auto says = [&](const std::vector<std::string>& texts, std::size_t field) {
      for (std::size_t i = 0; i < texts.size() && i < all_.known_as.size(); ++i) {
        if (all_.left_out.contains(static_cast<std::int64_t>(i))) continue;
        if (field >= all_.known_as[i].size() || all_.known_as[i][field].second != texts[i]) return false;
      }
      return true;
    };
    if (all_.known_as.empty()) return;
    const auto& first = all_.known_as.front();
    for (std::size_t field = 0; field < first.size(); ++field) {
      if (std::ranges::any_of(all_.texts, [&](const auto& item) { return says(item.second, field); })) {
        said_.insert(first[field].first);
      }
    }
  }

  /// A column of the input may have the same name as a prediction.
  std::string free_name(const std::string& name) const {
    const std::set<std::string> taken = {"index", kClassName, kTop, kLeftOut};
    const bool is_taken = taken.contains(name) || all_.tensors.contains(name) || all_.texts.contains(name);
    return is_taken ? "input_" + name : name;
  }

  void add_name(Json& into, const char* key, std::int64_t number) const {
    if (number < 0 || number >= static_cast<std::int64_t>(options_.classes.size())) return;
    into[key] = options_.classes[static_cast<std::size_t>(number)];
  }

  Json top_at(std::int64_t index) const {
    const auto row = probabilities_[index];
    const auto [values, classes] = row.topk(std::min(options_.top, row.size(0)));
    auto list = Json::array();
    for (std::int64_t i = 0; i < values.size(0); ++i) {
      Json one{{kClass, classes[i].item<std::int64_t>()}};
      add_name(one, kClassName, one[kClass].get<std::int64_t>());
      one[kProbability] = values[i].item<double>();
      list.push_back(std::move(one));
    }
    return list;
  }

  const train::Prediction& all_;
  const LineOptions& options_;
  at::Tensor probabilities_;
  std::set<std::string> said_;
};

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string cell_of(const Json& value) {
  auto text = value.is_string() ? value.get<std::string>() : text_of(value);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

using Cells = std::vector<std::pair<std::string, std::string>>;

Cells cells_of(const Json& line) {
  Cells cells;
  for (const auto& [name, value] : line.items()) {
    if (!value.is_array()) {
      cells.emplace_back(name, cell_of(value));
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      const auto column = fmt::format("{}_{}", name, i + 1);
      if (!value[i].is_object()) {
        cells.emplace_back(column, cell_of(value[i]));
        continue;
      }
      cells.emplace_back(column, cell_of(value[i][kClass]));
      if (value[i].contains(kClassName)) cells.emplace_back(column + "_name", cell_of(value[i][kClassName]));
      cells.emplace_back(column + "_probability", cell_of(value[i][kProbability]));
    }
  }
  return cells;
}

}  // namespace

std::string json_lines_of(const train::Prediction& all, const LineOptions& options) {
  const Lines lines(all, options);
  std::string text;
  for (std::int64_t i = 0; i < lines.samples(); ++i) text += text_of(lines.line(i)) + '\n';
  return text;
}

std::string csv_of(const train::Prediction& all, const LineOptions& options) {
  const Lines lines(all, options);
  std::vector<std::string> header;
  std::vector<Cells> rows;
  for (std::int64_t i = 0; i < lines.samples(); ++i) {
    rows.push_back(cells_of(lines.line(i)));
    for (const auto& [name, cell] : rows.back()) {
      if (std::ranges::find(header, name) == header.end()) header.push_back(name);
    }
  }
  std::string text;
  for (const auto& name : header) text += (text.empty() ? "" : ",") + cell_of(name);
  text += '\n';
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < header.size(); ++i) {
      const auto cell = std::ranges::find(row, header[i], &Cells::value_type::first);
      if (i > 0) line += ',';
      if (cell != row.end()) line += cell->second;
    }
    text += line + '\n';
  }
  return text;
}

}  // namespace lockstep::runner
