// Pictures of single words with their texts, as a data set.
#pragma once

#include <apps/ocr/recognition/dictionary.h>
#include <apps/ocr/recognition/word_rules.h>
#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/pictures.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::ocr {

struct WordsOptions {
  std::string root;                ///< folder that all other paths are relative to, or one that holds it
  std::vector<std::string> train;  ///< list files, and folders of LMDB databases
  std::vector<std::string> eval;   ///< the same for evaluation; empty: none
  std::string train_images;        ///< folder of the pictures that lists name
  std::string eval_images;
  std::string labels = "tab";  ///< tab or icdar
  DictionaryOptions dictionary;
  WordLimits limits;
  samples::PictureOptions pictures;
};
void describe(ConfigFields& fields, WordsOptions& options);

/// A split. Fields: `pictures`, uint8 [H, W, C] of any size; the texts `labels`, unchanged from the file, and `names`,
/// the picture's file. Training has the words that WordRules keeps; evaluation has all, so that their number is that of
/// the files. nullptr for the test split without files.
///
/// Error(config) for files that are missing; Error(data) with file and line, or file and key, for damaged data, and for
/// words that a rule rejects. `get` throws Error(data) naming the picture and the position of its word.
std::shared_ptr<const samples::Dataset> load_words(const WordsOptions& options, data::Split split);

}  // namespace lockstep::ocr
