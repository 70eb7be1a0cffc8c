//! The service as a stranger meets it, who has no definition: by reflection, as grpcurl does.

use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use mgcomp_proto::Channel;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto};
use tokio::net::UnixStream;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tower_service::Service;

use crate::rig::Rig;

const ORIGIN: &str = "http://mgcomp-daemon";

async fn ask(channel: &Channel, what: MessageRequest) -> Result<MessageResponse, Status> {
    let mut client = ServerReflectionClient::with_origin(channel.clone(), Uri::from_static(ORIGIN));
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(what) };
    let answers = client.server_reflection_info(tonic::codegen::tokio_stream::iter([request])).await;
    Ok(answers?.into_inner().message().await?.unwrap().message_response.unwrap())
}

/// The file that says what `symbol` is.
async fn file(channel: &Channel, symbol: &str) -> FileDescriptorProto {
    match ask(channel, MessageRequest::FileContainingSymbol(symbol.to_owned())).await.unwrap() {
        MessageResponse::FileDescriptorResponse(found) => {
            FileDescriptorProto::decode(&found.file_descriptor_proto[0][..]).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// The message that another's field, or a method, names in full.
fn message<'a>(file: &'a FileDescriptorProto, full_name: &str) -> &'a DescriptorProto {
    let name = full_name.strip_prefix(&format!(".{}.", file.package())).unwrap();
    file.message_type.iter().find(|message| message.name() == name).unwrap()
}

/// Number and type of a field.
fn field<'a>(message: &'a DescriptorProto, name: &str) -> (u32, &'a str) {
    let field = message.field.iter().find(|field| field.name() == name).unwrap();
    (field.number() as u32, field.type_name())
}

/// A call of which nothing is known but its path and bytes; gives its status and message, `None` where all went well.
async fn call(channel: &mut Channel, path: &str, message: &[u8]) -> Option<(String, String)> {
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    let request = Request::post(format!("{ORIGIN}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(framed))))
        .unwrap();
    let answer: Response<Incoming> = channel.call(request).await.unwrap();
    let at_once = answer.headers().clone();
    let body = answer.into_body().collect().await.unwrap();
    let said = |name| at_once.get(name).or_else(|| body.trailers()?.get(name));
    let text = |name| said(name).map_or_else(String::new, |value| value.to_str().unwrap().to_owned());
    let status = text("grpc-status");
    assert!(!status.is_empty());
    (status != "0").then(|| (status, text("grpc-message")))
}

#[test]
fn a_stranger_finds_the_service_and_calls_it() {
    let rig = Rig::start(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut channel =
            Channel::open(UnixStream::connect(rig.socket()).await.unwrap(), None).await.unwrap();
        let MessageResponse::ListServicesResponse(services) =
            ask(&channel, MessageRequest::ListServices(String::new())).await.unwrap()
        else {
            panic!("no list of services");
        };
        let names: Vec<&str> = services.service.iter().map(|service| service.name.as_str()).collect();
        for expected in ["mgcomp.v1.Control", "grpc.health.v1.Health"] {
            assert!(names.contains(&expected), "{names:?}");
        }

        // Everything about a call is looked up: its path, its message, the numbers of its fields.
        let file = file(&channel, "mgcomp.v1.Control").await;
        let service = file.service.iter().find(|service| service.name() == "Control").unwrap();
        let method = service.method.iter().find(|method| method.name() == "UpdateSettings").unwrap();
        let (set, of_type) = field(message(&file, method.input_type()), "set");
        let (lambda_gbps, _) = field(message(&file, of_type), "lambda_gbps");
        let settings = [&[(lambda_gbps << 3 | 1) as u8][..], &2.5f64.to_le_bytes()].concat();
        let request = [&[(set << 3 | 2) as u8, settings.len() as u8][..], &settings].concat();
        let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
        assert_eq!(call(&mut channel, &path, &request).await, None);

        for path in ["/mgcomp.v1.Control/Nonsense", "/mgcomp.v1.Nonsense/ListJobs"] {
            let (status, message) = call(&mut channel, path, &[]).await.unwrap();
            assert!(status == "12" && message.contains("Nonsense"), "{path}: {status} {message}");
        }
        let unknown =
            ask(&channel, MessageRequest::FileContainingSymbol("mgcomp.v1.Nonsense".to_owned())).await;
        assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
    });
    assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], 2.5);
}
