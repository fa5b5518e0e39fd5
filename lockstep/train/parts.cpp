#include <lockstep/models/gpt.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/tasks/language_modelling.h>

namespace lockstep::train {
namespace {

ModelPart gpt() {
  return {.name = "gpt",
          .doc = "a decoder-only transformer for sequences of tokens",
          .options = PartOptions::of(models::GptShape{}),
          .make = [](const PartOptions& options) { return models::gpt(options.as<models::GptShape>()); },
          .task = "language_modelling"};
}

DataPart text() {
  return {
      .name = "text",
      .doc = "windows of the bytes of a text file, or of a file of tokens",
      .options = PartOptions::of(samples::TextOptions{}),
      .load = [](const PartOptions& options,
                 data::Split split) { return samples::load_text(options.as<samples::TextOptions>(), split); },
      .example = [](const PartOptions& options) { return samples::text_example(options.as<samples::TextOptions>()); }};
}

TaskPart language_modelling() {
  return {.name = "language_modelling",
          .doc = "the next token of each token; perplexity; a sample of text at each evaluation",
          .options = PartOptions::of(LanguageOptions{}),
          .make = [](const PartOptions& options) { return make_language_modelling(options.as<LanguageOptions>()); }};
}

}  // namespace

Parts shipped_parts() { return {.models = {gpt()}, .data = {text()}, .tasks = {language_modelling()}}; }

}  // namespace lockstep::train
