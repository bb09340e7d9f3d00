#pragma once

#include <memory>
#include <string>

#include <curl/curl.h>

#include "kube/access.h"
#include "kube/credentials.h"

// What every conversation with the server sets on curl's handle, whatever it is about.
namespace dure::kube {

struct CurlHandleDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using CurlHandle = std::unique_ptr<CURL, CurlHandleDeleter>;

struct CurlListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
// Must live as long as the handle uses it.
using CurlList = std::unique_ptr<curl_slist, CurlListDeleter>;

void append(CurlList& list, const std::string& line);

CurlHandle newHandle();

// Where the server is and who it must be, who we are, and how long connecting may take. `url` lies
// on the server. The list goes with the handle.
CurlList address(CURL* handle, const KubeAccess& access, const Credential& credential,
                 std::string url);

// "host:port" in a URL.
std::string authorityOf(const std::string& url);

// Why a conversation failed, in a sentence.
Error connectionError(CURLcode code, const std::string& reason, const KubeAccess& access);

}  // namespace dure::kube
