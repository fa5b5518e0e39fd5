// Beginnings of texts that a command line names, for a language model to write on.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/train/config.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

struct Prompt {
  std::string shown;  ///< as people know it
  std::vector<std::int64_t> tokens;
};

/// Each byte is a token.
Prompt prompt_of(std::string text);

/// Of a line of a file: the text, or where the lines are JSON what is under the key `prompt`: a text, or a list of
/// tokens. Error(data) for another JSON.
Prompt prompt_in(std::string_view line, bool is_json);

/// Samples for task.name language_modelling: `tokens`, int64 [model.context], the last of a prompt's where they are
/// more, `lengths` and `numbers` (samples/text.h). Error(config) for a model that is none of language;
/// Error(invalid_argument) for an empty prompt, and a token that the model does not have.
std::shared_ptr<const samples::Dataset> given_prompts(const RunConfig& config, std::vector<Prompt> prompts);

}  // namespace lockstep::train
