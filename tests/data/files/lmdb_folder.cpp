#include "data/files/lmdb_folder.h"

#include <gtest/gtest.h>
#include <lmdb.h>

namespace lockstep::test {

void write_lmdb(const std::filesystem::path& folder, const std::map<std::string, std::string>& entries) {
  std::filesystem::create_directories(folder);
  MDB_env* environment = nullptr;
  ASSERT_EQ(mdb_env_create(&environment), 0);
  ASSERT_EQ(mdb_env_open(environment, folder.c_str(), 0, 0644), 0);
  MDB_txn* transaction = nullptr;
  ASSERT_EQ(mdb_txn_begin(environment, nullptr, 0, &transaction), 0);
  MDB_dbi database = 0;
  ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &database), 0);
  for (const auto& [key, value] : entries) {
    MDB_val name{key.size(), const_cast<char*>(key.data())};
    MDB_val data{value.size(), const_cast<char*>(value.data())};
    ASSERT_EQ(mdb_put(transaction, database, &name, &data, 0), 0);
  }
  ASSERT_EQ(mdb_txn_commit(transaction), 0);
  mdb_env_close(environment);
}

}  // namespace lockstep::test
