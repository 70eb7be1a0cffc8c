//! What NCCL's calls do.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mgcomp_transport::attach;
use mgcomp_transport::fork::Process;

use crate::abi::{Facts, HANDLE_LEN, PTR_HOST};
use crate::comm::{Receiver, Sender};
use crate::context::{Context, Engine};
use crate::error::NetError;
use crate::logger;
use crate::memory::{Destination, Source};
use crate::objects::{self, Listening, Object, Token};

/// What is started.
struct Started {
    engine: Arc<Engine>,
    /// Contexts that NCCL has.
    contexts: usize,
    /// The one of versions that know of none.
    default: Option<Token>,
}

static STARTED: Mutex<Option<Started>> = Mutex::new(None);
/// The process that the first call was made in.
static PROCESS: OnceLock<Process> = OnceLock::new();

/// Children have nothing but locks that may be held for ever. So this comes before anything else.
fn check_process() -> Result<(), NetError> {
    if PROCESS.get_or_init(Process::current).is_current() { Ok(()) } else { Err(NetError::Forked) }
}

fn started() -> MutexGuard<'static, Option<Started>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the plugin for a communicator, or for a version that names none.
pub(crate) fn init(log: crate::abi::Logger, communicator: Option<u64>) -> Result<Token, NetError> {
    check_process()?;
    logger::set(log);
    let mut state = started();
    if state.is_none() {
        *state = Some(Started { engine: Arc::new(start()?), contexts: 0, default: None });
    }
    let Some(started) = state.as_mut() else { return Err(NetError::NotStarted) };
    if let (None, Some(default)) = (communicator, started.default) {
        return Ok(default);
    }
    let context = Context::new(Arc::clone(&started.engine), communicator);
    let token = objects::insert(Object::Context(Arc::new(context)));
    match communicator {
        Some(_) => started.contexts += 1,
        None => started.default = Some(token),
    }
    Ok(token)
}

fn start() -> Result<Engine, NetError> {
    attach::log();
    let engine = Engine::start()?;
    let policy = if engine.settings.off { "off".to_owned() } else { engine.settings.policy.to_string() };
    let (version, carrier) = (env!("CARGO_PKG_VERSION"), engine.carrier.to_string());
    logger::info(&format!("mgcomp {version}, {carrier}, compression {policy}"));
    Ok(engine)
}

/// Ends a communicator's context; with the last one, everything.
pub(crate) fn finalize(context: Token) -> Result<(), NetError> {
    check_process()?;
    let Object::Context(ended) = objects::find(context, "context")? else {
        return Err(context.is_no("context"));
    };
    objects::remove(context);
    // NCCL closes those alone that somebody has connected to. Nobody could connect back: that needs the context.
    objects::remove_listeners(&ended);
    let mut state = started();
    let Some(started) = state.as_mut() else { return Err(NetError::NotStarted) };
    started.contexts = started.contexts.saturating_sub(1);
    if started.contexts == 0 && started.default.is_none() {
        let ended = state.take();
        drop(state);
        ended.iter().for_each(|ended| ended.engine.stop());
    }
    Ok(())
}

pub(crate) fn devices() -> Result<usize, NetError> {
    Ok(engine()?.carrier.devices())
}

pub(crate) fn facts(device: c_int) -> Result<Facts, NetError> {
    let engine = engine()?;
    engine.carrier.facts(check_device(&engine, device)?)
}

fn engine() -> Result<Arc<Engine>, NetError> {
    check_process()?;
    started().as_ref().map(|started| Arc::clone(&started.engine)).ok_or(NetError::NotStarted)
}

fn check_device(engine: &Engine, device: c_int) -> Result<usize, NetError> {
    let devices = engine.carrier.devices();
    let known = usize::try_from(device).ok().filter(|&device| device < devices);
    known.ok_or(NetError::Device { device, devices })
}

/// A context, or that of versions which know of none.
fn context(token: Token) -> Result<Arc<Context>, NetError> {
    check_process()?;
    let default = || started().as_ref().and_then(|started| started.default);
    let token = if token.is_null() { default().ok_or(NetError::NotStarted)? } else { token };
    match objects::find(token, "context")? {
        Object::Context(context) => context.check().map(|()| context),
        _ => Err(token.is_no("context")),
    }
}

pub(crate) fn set_kind(token: Token, operations: u32, protocols: u32) -> Result<(), NetError> {
    context(token)?.set_kind(operations, protocols);
    Ok(())
}

pub(crate) fn listen(token: Token, device: c_int, handle: &mut [u8; HANDLE_LEN]) -> Result<Token, NetError> {
    let context = context(token)?;
    let device = check_device(&context.engine, device)?;
    let listener = Mutex::new(context.engine.carrier.listen(device, handle)?);
    Ok(objects::insert(Object::Listener(Arc::new(Listening { context, listener }))))
}

/// A sending end, if the connection is up by now.
pub(crate) fn connect(
    token: Token,
    device: c_int,
    handle: &mut [u8; HANDLE_LEN],
) -> Result<Option<Token>, NetError> {
    let context = context(token)?;
    let device = check_device(&context.engine, device)?;
    let outgoing = context.engine.carrier.connect(device, handle)?;
    Ok(outgoing.map(|end| objects::insert(Object::Sender(Arc::new(Sender::new(context, end))))))
}

/// A receiving end, if somebody has connected by now.
pub(crate) fn accept(token: Token) -> Result<Option<Token>, NetError> {
    check_process()?;
    let Object::Listener(listening) = objects::find(token, "listener")? else {
        return Err(token.is_no("listener"));
    };
    listening.context.check()?;
    let incoming = listening.listener.lock().unwrap_or_else(PoisonError::into_inner).accept()?;
    let context = Arc::clone(&listening.context);
    Ok(incoming.map(|end| objects::insert(Object::Receiver(Arc::new(Receiver::new(context, end))))))
}

/// Whether an end of a connection takes memory of this kind.
pub(crate) fn check_memory(end: Token, kind: c_int) -> Result<(), NetError> {
    check_process()?;
    match objects::find(end, "end of a connection")? {
        Object::Sender(_) | Object::Receiver(_) if kind == PTR_HOST => Ok(()),
        Object::Sender(_) | Object::Receiver(_) => Err(NetError::Memory { kind }),
        _ => Err(end.is_no("end of a connection")),
    }
}

/// Has an end of a connection let go of memory. NCCL frees it after this, and closes the end later. One that is closed has none.
pub(crate) fn release_memory(end: Token) -> Result<(), NetError> {
    check_process()?;
    match objects::find(end, "end of a connection") {
        Ok(Object::Sender(sender)) => sender.release(),
        Ok(Object::Receiver(receiver)) => receiver.release(),
        Ok(_) | Err(_) => {}
    }
    Ok(())
}

pub(crate) fn send(end: Token, source: Source) -> Result<Option<Token>, NetError> {
    let message = sender(end)?.send(source)?;
    Ok(message.map(|message| end.request(message)))
}

pub(crate) fn receive(
    end: Token,
    destination: Destination,
    is_looked_at: bool,
) -> Result<Option<Token>, NetError> {
    let message = receiver(end)?.receive(destination, is_looked_at)?;
    Ok(message.map(|message| end.request(message)))
}

/// How many bytes a request has moved, if it is done.
pub(crate) fn test(request: Token) -> Result<Option<usize>, NetError> {
    check_process()?;
    let number = request.message().ok_or_else(|| request.is_no("request"))?;
    let done = match objects::find(request, "request")? {
        Object::Sender(sender) => sender.test(number),
        Object::Receiver(receiver) => receiver.test(number),
        _ => return Err(request.is_no("request")),
    }?;
    done.ok_or_else(|| request.is_no("request"))
}

pub(crate) fn close_send(end: Token) -> Result<(), NetError> {
    let sender = sender(end)?;
    objects::remove(end);
    sender.release();
    Ok(())
}

pub(crate) fn close_recv(end: Token) -> Result<(), NetError> {
    let receiver = receiver(end)?;
    objects::remove(end);
    receiver.release();
    Ok(())
}

pub(crate) fn close_listen(listener: Token) -> Result<(), NetError> {
    check_process()?;
    match objects::find(listener, "listener")? {
        Object::Listener(_) => objects::remove(listener),
        _ => return Err(listener.is_no("listener")),
    }
    Ok(())
}

fn sender(end: Token) -> Result<Arc<Sender>, NetError> {
    check_process()?;
    match objects::find(end, "sending end")? {
        Object::Sender(sender) => Ok(sender),
        _ => Err(end.is_no("sending end")),
    }
}

fn receiver(end: Token) -> Result<Arc<Receiver>, NetError> {
    check_process()?;
    match objects::find(end, "receiving end")? {
        Object::Receiver(receiver) => Ok(receiver),
        _ => Err(end.is_no("receiving end")),
    }
}
